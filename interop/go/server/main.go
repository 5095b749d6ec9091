// An HTTP server that answers what every server of these checks answers (docs/interop.md), over HTTP/1 and over HTTP/2
// by prior knowledge, on one port. It prints its address as JSON when it is ready. With -log it writes a line for each
// request that it saw: method, path, host, length of the body.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"

	"leno/interop/pattern"
)

func main() {
	seen := flag.String("log", os.DevNull, "file for a line per request")
	flag.Parse()
	file, err := os.OpenFile(*seen, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Printf("{\"address\":\"%s\"}\n", listener.Addr())
	server := &http.Server{Handler: logged(log.New(file, "", 0), routes()), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	check(server.Serve(listener))
}

func routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/bytes/{length}", give)
	mux.HandleFunc("/sink", sink)
	mux.HandleFunc("/chunks", chunks)
	mux.HandleFunc("/trailers", trailers)
	mux.HandleFunc("/status/{code}", status)
	mux.HandleFunc("/cookies", cookies)
	return mux
}

func hello(w http.ResponseWriter, r *http.Request) {
	// What is not asked for is read too: a body that nobody reads ends the connection, which would hide faults.
	io.Copy(io.Discard, r.Body)
	w.Header().Set("x-seen", r.Method+" "+r.URL.Path)
	fmt.Fprintln(w, "hello")
}

func echo(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength >= 0 {
		w.Header().Set("content-length", strconv.FormatInt(r.ContentLength, 10))
	}
	http.NewResponseController(w).EnableFullDuplex()
	io.Copy(w, r.Body)
}

func give(w http.ResponseWriter, r *http.Request) {
	length, err := strconv.ParseInt(r.PathValue("length"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("content-length", r.PathValue("length"))
	io.CopyBuffer(struct{ io.Writer }{w}, &pattern.Reader{Left: length}, make([]byte, pattern.Block))
}

func sink(w http.ResponseWriter, r *http.Request) {
	length, err := pattern.Check(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, length)
}

func chunks(w http.ResponseWriter, _ *http.Request) {
	for _, word := range []string{"one", "two", "three"} {
		fmt.Fprintln(w, word)
		http.NewResponseController(w).Flush()
	}
}

func trailers(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("trailer", "x-end, x-request-end")
	fmt.Fprintln(w, "body")
	http.NewResponseController(w).Flush()
	w.Header().Set("x-end", "reached")
	w.Header().Set("x-request-end", r.Trailer.Get("x-end"))
}

func status(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.PathValue("code"))
	if err != nil || code < 200 || code > 599 {
		code = http.StatusBadRequest
	}
	w.WriteHeader(code)
}

func cookies(w http.ResponseWriter, r *http.Request) {
	for _, cookie := range r.Cookies() {
		fmt.Fprintf(w, "%s=%s\n", cookie.Name, cookie.Value)
	}
}

// counted is a body that knows how much was read of it.
type counted struct {
	io.ReadCloser
	length int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.length += int64(n)
	return n, err
}

func logged(to *log.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &counted{ReadCloser: r.Body}
		r.Body = body
		next.ServeHTTP(w, r)
		to.Printf("%s %s %s %d", r.Method, r.RequestURI, r.Host, body.length)
	})
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
