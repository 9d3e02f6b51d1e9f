# Answers a line each of what it reads: the fields in base64, the secrets with commas between them.
require_relative "webhook"

STDIN.each_line(chomp: true) do |line|
  which, secrets, *fields = line.split("\t", -1).map { |field| field.split(",", -1).map { |part| part.unpack1("m0") } }
  fields = fields.map { |field| field[0].to_s }
  puts send("verify_#{which[0]}", secrets, *fields)
end
