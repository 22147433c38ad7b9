// A shop whose prices are behind a sync.RWMutex. An export reads them for long; then an update waits for
// that, and every other reader waits behind the update.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

var (
	lock  sync.RWMutex
	price = 7
	block [65536]byte
)

// exportPrices computes with the lock.
func exportPrices() {
	lock.RLock()
	defer lock.RUnlock()
	for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); {
		block[0] = sha256.Sum256(block[:])[0]
	}
}

// updatePrice waits for all readers.
func updatePrice() {
	lock.Lock()
	price++
	lock.Unlock()
}

func showPrice(w http.ResponseWriter) {
	lock.RLock()
	defer lock.RUnlock()
	fmt.Fprintln(w, price)
}

func main() {
	http.HandleFunc("/price", func(w http.ResponseWriter, _ *http.Request) { showPrice(w) })
	http.HandleFunc("/update", func(http.ResponseWriter, *http.Request) { updatePrice() })
	http.HandleFunc("/export", func(http.ResponseWriter, *http.Request) { exportPrices() })
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
