import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;

/** Answers a line each of what it reads: the fields in base64, the secrets with commas between them. */
final class Driver {
  private static String text(String field) {
    return new String(Base64.getDecoder().decode(field), UTF_8);
  }

  public static void main(String[] args) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    for (String line; (line = lines.readLine()) != null; ) {
      String[] fields = line.split("\t", -1);
      List<String> secrets = Arrays.stream(fields[1].split(",")).map(Driver::text).toList();
      byte[] body = Base64.getDecoder().decode(fields[fields.length - 1]);
      System.out.println(
          text(fields[0]).equals("sender")
              ? Webhook.verifySender(secrets, text(fields[2]), body)
              : Webhook.verifyStandard(secrets, text(fields[2]), text(fields[3]), text(fields[4]), body));
    }
  }
}
