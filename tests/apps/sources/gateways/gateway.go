// The gateway of `gateway.js`, in Go: each request has a goroutine of its own.
package main

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"sync"
)

func main() {
	port, bankPort := os.Args[1], os.Args[2]
	bank, err := net.Dial("tcp", "127.0.0.1:"+bankPort)
	if err != nil {
		panic(err)
	}
	lines := bufio.NewReader(bank)
	var asked sync.Mutex
	http.HandleFunc("/balance", func(w http.ResponseWriter, _ *http.Request) {
		asked.Lock()
		defer asked.Unlock()
		bank.Write([]byte("balance\n"))
		line, _ := lines.ReadBytes('\n')
		w.Write(line)
	})
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) })
	panic(http.ListenAndServe("127.0.0.1:"+port, nil))
}
