// A box office. One goroutine sells all tickets, and all requests send it theirs over one channel.
// To settle the accounts takes it long.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"time"
)

type request struct {
	settle bool
	done   chan int
}

var requests = make(chan request)

func settleAccounts() [32]byte {
	sum := sha256.Sum256([]byte("accounts"))
	for end := time.Now().Add(1100 * time.Millisecond); time.Now().Before(end); {
		for i := 0; i < 1000; i++ {
			sum = sha256.Sum256(sum[:])
		}
	}
	return sum
}

func sellTickets() {
	for sold := 0; ; sold++ {
		one := <-requests
		if one.settle {
			settleAccounts()
		}
		one.done <- sold
	}
}

func ask(settle bool) http.HandlerFunc {
	return func(response http.ResponseWriter, _ *http.Request) {
		done := make(chan int)
		requests <- request{settle, done}
		fmt.Fprintln(response, <-done)
	}
}

func main() {
	go sellTickets()
	http.HandleFunc("/ticket", ask(false))
	http.HandleFunc("/settle", ask(true))
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
