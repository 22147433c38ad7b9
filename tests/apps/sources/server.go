// A web server whose goroutines keep each other waiting: on a mutex, on a channel, in a system
// call.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

var (
	cart  sync.Mutex
	items int
	mails = make(chan string)
)

// computeTotal computes for the given time.
func computeTotal(duration time.Duration) {
	sum := sha256.Sum256(nil)
	for end := time.Now().Add(duration); time.Now().Before(end); {
		for range 100 {
			sum = sha256.Sum256(sum[:])
		}
	}
}

// sendMails takes one mail after the other; a big one takes longer.
func sendMails() {
	for mail := range mails {
		if mail == "big" {
			computeTotal(1200 * time.Millisecond)
		}
	}
}

// lockFile takes a file lock that another program may have.
func lockFile(name string) {
	file, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		panic(err)
	}
}

func fill(w http.ResponseWriter, work func()) {
	cart.Lock()
	defer cart.Unlock()
	items++
	work()
	fmt.Fprint(w, items)
}

func main() {
	go sendMails()
	page := func(path string, work func(http.ResponseWriter)) {
		http.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { work(w) })
	}
	page("/cart", func(w http.ResponseWriter) { fill(w, func() {}) })
	page("/total", func(w http.ResponseWriter) {
		fill(w, func() { computeTotal(1200 * time.Millisecond) })
	})
	page("/export", func(w http.ResponseWriter) { fill(w, func() { lockFile(os.Args[2]) }) })
	page("/mail", func(w http.ResponseWriter) { mails <- "small" })
	page("/bigmail", func(w http.ResponseWriter) { mails <- "big" })
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
