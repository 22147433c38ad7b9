// A server that has a library in C sign its documents, with a mutex, because the library is not made for
// threads.
package main

/*
#cgo CFLAGS: -O2 -g
#include <time.h>

static unsigned long value;

__attribute__((noinline)) static void sign_document(double seconds)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int i = 0; i < 10000; i++)
			value = value * 6364136223846793005UL + 1442695040888963407UL;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
}
*/
import "C"

import (
	"fmt"
	"net/http"
	"os"
	"sync"
)

var lock sync.Mutex

func stamp(seconds float64) {
	lock.Lock()
	C.sign_document(C.double(seconds))
	lock.Unlock()
}

func main() {
	http.HandleFunc("/letter", func(w http.ResponseWriter, _ *http.Request) {
		stamp(0.0001)
		fmt.Fprintln(w, "signed")
	})
	http.HandleFunc("/book", func(w http.ResponseWriter, _ *http.Request) {
		stamp(1.2)
		fmt.Fprintln(w, "signed")
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
