package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// sidecar is a leno-proxy that is told.
type sidecar struct {
	process *exec.Cmd
	admin   string
	log     string
	out     *bufio.Reader
}

// launch starts one with this section `control`, and does not wait for it.
func launch(of settings, section string) (*sidecar, error) {
	file, log := of.folder+"/sidecar.yaml", of.folder+"/sidecar.log"
	admin := free()
	text := fmt.Sprintf(
		"workload: {name: web}\nworkers: 1\nmetrics: 'off'\nadmin: 127.0.0.1:%d\ncontrol: {%s}\n",
		admin, section)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	said, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	process := exec.Command(of.proxy, "--config", file)
	process.Stderr = said
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	at := fmt.Sprintf("http://127.0.0.1:%d", admin)
	return &sidecar{process, at, log, bufio.NewReader(out)}, nil
}

// ready waits until it serves.
func (s *sidecar) ready() error {
	line, err := s.out.ReadBytes('\n')
	var event map[string]any
	if err == nil {
		err = json.Unmarshal(line, &event)
	}
	if err != nil {
		return fmt.Errorf("it did not get ready: %w\n%s", err, s.said())
	}
	return nil
}

func (s *sidecar) said() string {
	text, _ := os.ReadFile(s.log)
	return string(text)
}

func (s *sidecar) end() {
	s.process.Process.Kill()
	s.process.Wait()
}

// names gives which listeners or clusters it has.
func (s *sidecar) names(kind string) map[string]bool {
	names := map[string]bool{}
	answer, err := http.Get(s.admin + "/config_dump")
	if err != nil {
		return names
	}
	defer answer.Body.Close()
	var dump struct {
		Generation, Applied int
		Config              map[string]json.RawMessage
	}
	var all []struct{ Name string }
	if json.NewDecoder(answer.Body).Decode(&dump) != nil || dump.Generation != dump.Applied {
		return names
	}
	if json.Unmarshal(dump.Config[kind], &all) != nil {
		return names
	}
	for _, one := range all {
		names[one.Name] = true
	}
	return names
}

// free is a port that nobody has at this moment.
func free() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// app is a server that says its name.
type app struct {
	server *httptest.Server
	port   int
}

func serve(name string) app {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, name)
	}))
	return app{server, server.Listener.Addr().(*net.TCPAddr).Port}
}

// ask gives who answers at a port.
func ask(port int) (string, error) {
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, bytes.TrimSpace(body))
	}
	return string(body), err
}

// becomes waits until a port is answered by somebody.
func becomes(port int, name string) error {
	var last string
	err := until(name+" answers", func() bool {
		answer, err := ask(port)
		if err != nil {
			last = err.Error()
		}
		return answer == name
	})
	if err != nil {
		return fmt.Errorf("%w; last: %s", err, last)
	}
	return nil
}

// traffic is requests, one after the other on connections that are kept, until it is stopped.
type traffic struct {
	stop   chan struct{}
	done   chan struct{}
	count  atomic.Int64
	failed atomic.Int64
	first  atomic.Value
}

func run(port int) *traffic {
	t := &traffic{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		for {
			select {
			case <-t.stop:
				return
			default:
			}
			if _, err := ask(port); err != nil {
				t.failed.Add(1)
				t.first.CompareAndSwap(nil, err.Error())
			}
			t.count.Add(1)
			time.Sleep(time.Millisecond)
		}
	}()
	return t
}

// end says whether any of them failed.
func (t *traffic) end() error {
	err := until("requests are made", func() bool { return t.count.Load() >= 10 })
	close(t.stop)
	<-t.done
	if failed := t.failed.Load(); failed > 0 {
		return fmt.Errorf("%d of %d requests failed: %v", failed, t.count.Load(), t.first.Load())
	}
	return err
}

// first gives the error that comes first, if any does.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func contains(text, word string) error {
	if strings.Contains(text, word) {
		return nil
	}
	return fmt.Errorf("%q does not contain %q", text, word)
}
