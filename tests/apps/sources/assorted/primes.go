// A server, one page of which counts in a loop that calls nothing. Without preemption by signals
// (GODEBUG=asyncpreemptoff=1), the runtime cannot stop such a loop: neither to let another goroutine run
// on its only processor, nor to collect garbage.
package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"
)

var rounds = 10_000_000

//go:noinline
func countPrimes(rounds int) uint64 {
	value := uint64(rounds)
	for n := 0; n < rounds; n++ {
		value = value*6364136223846793005 + 1442695040888963407
	}
	return value
}

func main() {
	begin := time.Now()
	seen := countPrimes(100_000_000)
	rounds = int(100_000_000 * 1.2 / time.Since(begin).Seconds())
	http.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, seen) })
	http.HandleFunc("/count", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, countPrimes(rounds))
	})
	http.HandleFunc("/collect", func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC()
		fmt.Fprintln(w, strconv.Itoa(os.Getpid()))
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
