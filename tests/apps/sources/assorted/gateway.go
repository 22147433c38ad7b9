// A gateway that has one connection to the service behind it (MaxConnsPerHost).
package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

func main() {
	behind, err := url.Parse("http://127.0.0.1:" + os.Args[2])
	if err != nil {
		panic(err)
	}
	gateway := httputil.NewSingleHostReverseProxy(behind)
	gateway.Transport = &http.Transport{MaxConnsPerHost: 1}
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], gateway))
}
