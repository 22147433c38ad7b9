// A server of tariffs, which are computed when somebody needs them for the first time (sync.Once). A page
// has all of them forgotten, so that the next visitor computes them anew.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

type tariffs struct {
	once sync.Once
	sum  [32]byte
}

var current atomic.Pointer[tariffs]

func computeTariffs(seconds float64) (sum [32]byte) {
	end := time.Now().Add(time.Duration(seconds * 1e9))
	for time.Now().Before(end) {
		for n := 0; n < 1000; n++ {
			sum = sha256.Sum256(sum[:])
		}
	}
	return sum
}

func showTariff(seconds float64) [32]byte {
	now := current.Load()
	now.once.Do(func() { now.sum = computeTariffs(seconds) })
	return now.sum
}

func main() {
	current.Store(&tariffs{})
	http.HandleFunc("/tariff", func(answer http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(answer, "%x\n", showTariff(0.001))
	})
	http.HandleFunc("/change", func(answer http.ResponseWriter, _ *http.Request) {
		current.Store(&tariffs{})
		fmt.Fprintf(answer, "%x\n", showTariff(1.3))
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
