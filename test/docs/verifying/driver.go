// Answers a line each of what it reads: the fields in base64, the secrets with commas between them.
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
)

func decoded(texts []string) []string {
	for index, text := range texts {
		bytes, _ := base64.StdEncoding.DecodeString(text)
		texts[index] = string(bytes)
	}
	return texts
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		secrets := decoded(strings.Split(fields[1], ","))
		fields = decoded(fields)
		body := []byte(fields[len(fields)-1])
		if fields[0] == "sender" {
			fmt.Println(VerifySender(secrets, fields[2], body))
		} else {
			fmt.Println(VerifyStandard(secrets, fields[2], fields[3], fields[4], body))
		}
	}
}
