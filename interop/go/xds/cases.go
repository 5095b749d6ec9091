package main

import (
	"fmt"
	"slices"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

type list = []types.Resource

// simple is one cluster of endpoints that come apart, behind one listener.
func simple(port int, of ...int) world {
	return world{
		clusters:  list{discovered("a")},
		endpoints: list{assignment("a", of...)},
		routes:    list{routed("local_route", "a")},
		listeners: list{web("listener_0", port, "local_route")},
	}
}

// told starts a control plane that tells something, and a sidecar under it that is ready.
func told(of settings, what world) (*plane, *sidecar, error) {
	p, err := begin("tcp", "127.0.0.1:0", nil)
	if err != nil {
		return nil, nil, err
	}
	if err := p.tell(what); err != nil {
		return nil, nil, err
	}
	s, err := launch(of, p.section(of.whole, "tls: plaintext"))
	if err != nil {
		return nil, nil, err
	}
	if err := s.ready(); err != nil {
		s.end()
		return nil, nil, err
	}
	return p, s, nil
}

// example is what go-control-plane's own example tells, but for names that are looked up.
func example(of settings) error {
	backend, port := serve("a"), free()
	what := simple(port)
	what.clusters = list{given("a", cluster.Cluster_LOGICAL_DNS, backend.port)}
	what.endpoints = nil
	_, s, err := told(of, what)
	if err != nil {
		return err
	}
	defer s.end()
	return becomes(port, "a")
}

// changes adds, changes and removes one of each kind while requests run, none of which may fail.
func changes(of settings) error {
	a, again, b := serve("a"), serve("a again"), serve("b")
	port, second, third, fourth := free(), free(), free(), free()
	what := simple(port, a.port)
	p, s, err := told(of, what)
	if err != nil {
		return err
	}
	defer s.end()
	if err := becomes(port, "a"); err != nil {
		return err
	}
	requests := run(port)
	lacks := func(kind, name string) func() error {
		return func() error {
			return until(kind+" lose "+name, func() bool {
				names := s.names(kind)
				return len(names) > 0 && !names[name]
			})
		}
	}
	tell := func(change func()) func() error {
		return func() error {
			change()
			return p.tell(what)
		}
	}
	at := func(port int, name string) func() error {
		return func() error { return becomes(port, name) }
	}
	err = first(
		tell(func() {
			what.clusters = append(what.clusters, discovered("b"))
			what.endpoints = append(what.endpoints, assignment("b", b.port))
			what.routes = append(what.routes, routed("other_route", "b"))
			what.listeners = append(what.listeners, web("listener_1", second, "other_route"))
		}),
		at(second, "b"),
		tell(func() { what.endpoints = list{assignment("a", again.port), assignment("b", b.port)} }),
		at(port, "a again"),
		tell(func() { what.routes = list{routed("local_route", "b"), routed("other_route", "b")} }),
		at(port, "b"),
		tell(func() {
			what.clusters = list{discovered("b")}
			what.endpoints = list{assignment("b", b.port)}
		}),
		lacks("clusters", "a"),
		tell(func() {
			what.clusters = list{given("b", cluster.Cluster_STATIC, b.port), discovered("a")}
			what.endpoints = list{assignment("a", a.port)}
			what.listeners = append(what.listeners,
				inline("listener_2", third, "a"), opaque("listener_3", fourth, "a"))
		}),
		at(third, "a"), at(fourth, "a"), at(port, "b"),
		tell(func() {
			what.routes = list{routed("third_route", "a")}
			what.listeners = list{web("listener_0", port, "third_route")}
		}),
		at(port, "a"), lacks("listeners", "listener_1"), lacks("listeners", "listener_3"),
	)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.said())
	}
	return requests.end()
}

// words are what is said first, what is answered, and what becomes of names that nobody has.
func words(of settings) error {
	a, port, lonely := serve("a"), free(), free()
	what := simple(port, a.port)
	what.listeners = append(what.listeners, web("listener_1", lonely, "late_route"))
	p, s, err := told(of, what)
	if err != nil {
		return err
	}
	defer s.end()
	all := []string(nil)
	if !of.whole {
		all = []string{"*"}
	}
	for kind, names := range map[resource.Type][]string{
		resource.ClusterType:  all,
		resource.ListenerType: all,
		resource.EndpointType: {"a"},
		resource.RouteType:    {"late_route", "local_route"},
	} {
		said := p.heard(kind)
		opening := said[0]
		slices.Sort(opening.names)
		if opening.version != "" || opening.nonce != "" || !slices.Equal(opening.names, names) {
			return fmt.Errorf("%s begins with %+v", kind, opening)
		}
		answer := said[len(said)-1]
		if answer.nonce == "" || answer.refusal != "" || of.whole && answer.version != "1" {
			return fmt.Errorf("%s is answered with %+v", kind, answer)
		}
	}
	introduced := 0
	for _, said := range p.said {
		if said.node != "" && said.node != node {
			return fmt.Errorf("it calls itself %q", said.node)
		}
		if said.node != "" {
			introduced++
		}
	}
	if !of.whole && introduced != 1 {
		return fmt.Errorf("it introduced itself %d times", introduced)
	}
	what.routes = append(what.routes, routed("late_route", "a"))
	return first(
		func() error { return becomes(port, "a") },
		func() error { return p.tell(what) },
		func() error { return becomes(lonely, "a") },
	)
}

// refusals are named, and what was in force stays.
func refusals(of settings) error {
	a, port := serve("a"), free()
	what := simple(port, a.port)
	p, s, err := told(of, what)
	if err != nil {
		return err
	}
	defer s.end()
	if err := becomes(port, "a"); err != nil {
		return err
	}
	requests := run(port)
	bad, worse := discovered("bad"), routed("local_route", "bad")
	bad.OutlierDetection = &cluster.OutlierDetection{}
	worse.VirtualHosts[0].Routes[0].GetRoute().RetryPolicy = &route.RetryPolicy{RetryOn: "5xx"}
	what.clusters = append(what.clusters, bad)
	what.routes = list{worse}
	if err := p.tell(what); err != nil {
		return err
	}
	named := func(kind resource.Type, words ...string) error {
		err := until(kind+" is refused", func() bool { return p.refused(kind) != "" })
		for _, word := range words {
			err = first(func() error { return err }, func() error {
				return contains(p.refused(kind), word)
			})
		}
		return err
	}
	err = first(
		func() error { return named(resource.ClusterType, "cluster bad", "outlier_detection") },
		func() error { return named(resource.RouteType, "routes local_route", "retry_policy") },
		func() error { return becomes(port, "a") },
	)
	if err != nil {
		return err
	}
	b := serve("b")
	what.clusters = list{discovered("a"), given("bad", cluster.Cluster_STRICT_DNS, b.port)}
	what.routes = list{routed("local_route", "bad")}
	return first(
		func() error { return p.tell(what) },
		func() error { return becomes(port, "b") },
		requests.end,
	)
}

// restart takes the control plane away for a while; the next one counts versions from one again.
func restart(of settings) error {
	a, b, port := serve("a"), serve("b"), free()
	p, s, err := told(of, simple(port, a.port))
	if err != nil {
		return err
	}
	defer s.end()
	requests := run(port)
	p.stop()
	err = until("it notices", func() bool { return contains(s.said(), "warn") == nil })
	return first(
		func() error { return err },
		func() error { return becomes(port, "a") },
		p.start,
		func() error { return p.tell(simple(port, b.port)) },
		func() error { return becomes(port, "b") },
		requests.end,
	)
}
