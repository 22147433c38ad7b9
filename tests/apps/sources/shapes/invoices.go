// A service that numbers and signs invoices. To sign one takes it a while.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"time"
)

func signInvoice() [32]byte {
	sum := sha256.Sum256([]byte("invoice"))
	for end := time.Now().Add(900 * time.Millisecond); time.Now().Before(end); {
		for i := 0; i < 1000; i++ {
			sum = sha256.Sum256(sum[:])
		}
	}
	return sum
}

func main() {
	http.HandleFunc("/invoices", func(response http.ResponseWriter, request *http.Request) {
		fmt.Fprintf(response, "%x", signInvoice())
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
