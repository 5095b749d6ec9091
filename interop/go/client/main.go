// An HTTP client that goes through what the servers of these checks answer (docs/interop.md), over HTTP/1.1 or HTTP/2 by
// prior knowledge. It fails with the first difference. With -length it only moves bodies of that many bytes, down and up.
package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	"leno/interop/pattern"
)

type browser struct {
	http.Client
	base string
}

func main() {
	version := flag.Int("version", 1, "HTTP/1 or HTTP/2")
	length := flag.Int64("length", 0, "bytes to move; 0: all the small cases")
	base := flag.String("base", "", "as in http://127.0.0.1:80")
	flag.Parse()
	transport := &http.Transport{Protocols: new(http.Protocols), ExpectContinueTimeout: 2 * time.Second}
	transport.Protocols.SetHTTP1(*version == 1)
	transport.Protocols.SetUnencryptedHTTP2(*version == 2)
	b := &browser{Client: http.Client{Transport: transport}, base: *base}
	cases := []func(*browser) error{
		hello, nothing, refusal, echoes, streamed, pieces, bulk, upload, trailers, continued, many, cookies, longHead,
	}
	if *length > 0 {
		cases = []func(*browser) error{func(b *browser) error { return b.move(*length) }}
	}
	for _, run := range cases {
		if err := run(b); err != nil {
			log.Fatal(err)
		}
	}
}

// call gives the answer's body and the answer, and an error unless it was `code`.
func (b *browser) call(code int, request *http.Request) (*http.Response, string, error) {
	answer, err := b.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != code {
		err = fmt.Errorf("status %d for %d: %.200q", answer.StatusCode, code, body)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, err)
	}
	return answer, string(body), err
}

func (b *browser) request(method, path string, body io.Reader) *http.Request {
	request, err := http.NewRequest(method, b.base+path, body)
	if err != nil {
		log.Fatal(err)
	}
	return request
}

// expect compares long texts without printing them.
func expect(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s: %d bytes %.80q, want %d bytes %.80q", what, len(got), got, len(want), want)
	}
	return nil
}

func hello(b *browser) error {
	_, body, err := b.call(200, b.request("GET", "/a/path?with=a&query=%20%2F", nil))
	return errors.Join(err, expect("hello", body, "hello\n"))
}

func nothing(b *browser) error {
	_, body, err := b.call(200, b.request("HEAD", "/bytes/5", nil))
	_, none, other := b.call(204, b.request("GET", "/status/204", nil))
	return errors.Join(err, other, expect("body of HEAD", body, ""), expect("body of 204", none, ""))
}

func refusal(b *browser) error {
	_, _, err := b.call(418, b.request("GET", "/status/418", nil))
	return err
}

func echoes(b *browser) error {
	for _, length := range []int{0, 1, 16383, 65536, 70001, 3 << 20} {
		body := make([]byte, length)
		rand.Read(body)
		_, got, err := b.call(200, b.request("POST", "/echo", bytes.NewReader(body)))
		if err := errors.Join(err, expect("echo", got, string(body))); err != nil {
			return err
		}
	}
	return nil
}

// streamed sends a body whose length nobody knows, in pieces.
func streamed(b *browser) error {
	from, to := io.Pipe()
	go func() {
		for range 50 {
			fmt.Fprint(to, strings.Repeat("piece", 300))
		}
		to.Close()
	}()
	_, got, err := b.call(200, b.request("PUT", "/echo", from))
	return errors.Join(err, expect("streamed echo", got, strings.Repeat("piece", 50*300)))
}

func pieces(b *browser) error {
	_, got, err := b.call(200, b.request("GET", "/chunks", nil))
	return errors.Join(err, expect("chunks", got, "one\ntwo\nthree\n"))
}

func bulk(b *browser) error { return b.down(5_000_001) }

func upload(b *browser) error { return b.up(5_000_001) }

// trailers may be missing, where a server cannot send any.
func trailers(b *browser) error {
	answer, body, err := b.call(200, b.request("GET", "/trailers", nil))
	if err != nil && answer != nil && answer.StatusCode == http.StatusNotImplemented {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(expect("body", body, "body\n"), expect("trailer", answer.Trailer.Get("x-end"), "reached"))
}

func continued(b *browser) error {
	request := b.request("POST", "/echo", strings.NewReader("later"))
	request.Header.Set("expect", "100-continue")
	_, got, err := b.call(200, request)
	return errors.Join(err, expect("after 100", got, "later"))
}

// many asks at once: connections in HTTP/1, streams in HTTP/2.
func many(b *browser) error {
	failed := make([]error, 40)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() {
			text := strings.Repeat(fmt.Sprint(i, " "), 5000)
			_, got, err := b.call(200, b.request("POST", "/echo", strings.NewReader(text)))
			failed[i] = errors.Join(err, expect("one of many", got, text))
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

func cookies(b *browser) error {
	request := b.request("GET", "/cookies", nil)
	request.Header.Set("cookie", "a=1; b=2; c=3")
	_, got, err := b.call(200, request)
	return errors.Join(err, expect("cookies", got, "a=1\nb=2\nc=3\n"))
}

func longHead(b *browser) error {
	request := b.request("GET", "/", nil)
	request.Header.Set("x-long", strings.Repeat("long", 1500))
	_, got, err := b.call(200, request)
	return errors.Join(err, expect("long head", got, "hello\n"))
}

func (b *browser) move(length int64) error { return errors.Join(b.down(length), b.up(length)) }

func (b *browser) down(length int64) error {
	answer, err := b.Get(fmt.Sprintf("%s/bytes/%d", b.base, length))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := pattern.Check(answer.Body)
	if err == nil && got != length {
		err = fmt.Errorf("%d bytes of %d came", got, length)
	}
	return err
}

func (b *browser) up(length int64) error {
	request := b.request("POST", "/sink", &pattern.Reader{Left: length})
	request.ContentLength = length
	_, got, err := b.call(200, request)
	return errors.Join(err, expect("length that came", got, fmt.Sprintln(length)))
}
