// A server that writes a line of its log for each page, to standard error as programs in containers do.
package main

import (
	"log"
	"net/http"
	"os"
	"strings"
)

// What a request looks like in the log, with all its headers and cookies.
var details = strings.Repeat("x", 4000)

//go:noinline
func logRequest(request *http.Request) {
	log.Printf("%s %s %s", request.Method, request.URL.Path, details)
}

func showPrice(response http.ResponseWriter, request *http.Request) {
	logRequest(request)
	response.Write([]byte("7"))
}

func main() {
	http.HandleFunc("/price", showPrice)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
