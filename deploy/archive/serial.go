package archive

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Serial is the serial number of a list of dependencies: a UUID that depends on these texts alone, so that the list is reproducible.
func Serial(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, " ")))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
