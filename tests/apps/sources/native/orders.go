// A shop whose pages ask a database, over a pool of one connection (database/sql). The driver is a
// stand-in for one: it answers at once. The export goes to its client row by row, and the connection
// is in use until the last one.
package main

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// So much that no connection's buffers have it all.
const allOrders = 6000

var text = strings.Repeat("order ", 700)

type database struct{}

func (database) Open(string) (driver.Conn, error) { return connection{}, nil }

type connection struct{}

func (connection) Prepare(query string) (driver.Stmt, error) { return statement(query), nil }
func (connection) Close() error                              { return nil }
func (connection) Begin() (driver.Tx, error)                 { return nil, errors.New("read only") }

type statement string

func (statement) Close() error  { return nil }
func (statement) NumInput() int { return 0 }

func (statement) Exec([]driver.Value) (driver.Result, error) {
	return nil, errors.New("read only")
}

func (s statement) Query([]driver.Value) (driver.Rows, error) {
	if s == "all" {
		return &rows{allOrders}, nil
	}
	return &rows{1}, nil
}

type rows struct{ left int }

func (*rows) Columns() []string { return []string{"text"} }
func (*rows) Close() error      { return nil }

func (r *rows) Next(row []driver.Value) error {
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	row[0] = text
	return nil
}

// showOrder shows one order.
func showOrder(db *sql.DB, w http.ResponseWriter) {
	var order string
	if err := db.QueryRow("one").Scan(&order); err != nil {
		panic(err)
	}
	fmt.Fprintln(w, len(order))
}

// exportOrders sends all orders.
func exportOrders(db *sql.DB, w http.ResponseWriter) {
	found, err := db.Query("all")
	if err != nil {
		panic(err)
	}
	defer found.Close()
	for found.Next() {
		var order string
		if err := found.Scan(&order); err != nil {
			panic(err)
		}
		if _, err := fmt.Fprintln(w, order); err != nil {
			return
		}
	}
}

func main() {
	sql.Register("orders", database{})
	db, err := sql.Open("orders", "")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1)
	http.HandleFunc("/order", func(w http.ResponseWriter, _ *http.Request) { showOrder(db, w) })
	http.HandleFunc("/export", func(w http.ResponseWriter, _ *http.Request) { exportOrders(db, w) })
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
