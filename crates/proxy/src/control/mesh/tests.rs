//! What follows from what was said, in which order ever it came.

use super::*;
use model::{Balance, ListenerProtocol, Transport};
use xds::TRUST_BUNDLE;

fn listener(name: &str) -> Listener {
    Listener {
        routes: Vec::new(),
        ..testkit::parts::listener(name, "10.78.0.1:80", "")
    }
}

fn route(cluster: &str) -> Route {
    Route::to(cluster)
}

fn routes(name: &str, cluster: &str) -> Resource {
    let (listener, routes) = (name.to_owned(), vec![route(cluster)]);
    Resource::Routes { listener, routes }
}

fn cluster(name: &str, discovery: Discovery) -> Resource {
    Resource::Cluster(Cluster {
        discovery,
        balance: Balance::RoundRobin,
        ..nobody(name)
    })
}

fn endpoints(cluster: &str, addrs: &[&str]) -> Resource {
    let endpoint = |addr: &&str| Endpoint {
        address: addr.parse().unwrap(),
        transport: Transport::Plaintext,
        identities: Vec::new(),
    };
    let endpoints = addrs.iter().map(endpoint).collect();
    Resource::Endpoints {
        cluster: cluster.to_owned(),
        endpoints,
    }
}

fn mesh(resources: impl IntoIterator<Item = Resource>) -> Mesh {
    let mut mesh = Mesh::default();
    resources
        .into_iter()
        .for_each(|resource| mesh.add(resource));
    mesh
}

/// Names of listeners, and of clusters with how their endpoints are learnt and how many there are.
fn shown(mesh: &mut Mesh) -> (Vec<String>, Vec<(String, Discovery, usize)>) {
    let (listeners, clusters) = mesh.assemble();
    let listeners = listeners.into_iter().map(|listener| listener.name.clone());
    let clusters = clusters.into_iter().map(|cluster| {
        (
            cluster.name.clone(),
            cluster.discovery,
            cluster.endpoints.len(),
        )
    });
    (listeners.collect(), clusters.collect())
}

#[test]
fn a_listener_waits_for_its_routes() {
    let mut mesh = mesh([
        Resource::Listener(listener("web")),
        cluster("c", Discovery::Static),
    ]);
    assert_eq!(mesh.wanted_routes(), BTreeSet::from(["web"]));
    assert_eq!(shown(&mut mesh).0, [""; 0]);
    mesh.add(routes("web", "c"));
    assert_eq!(shown(&mut mesh).0, ["web"]);
    let told = Listener {
        protocol: ListenerProtocol::Tcp,
        routes: vec![route("c")],
        ..listener("tcp")
    };
    mesh.add(Resource::Listener(told));
    assert_eq!(shown(&mut mesh).0, ["tcp", "web"]);
    assert_eq!(mesh.wanted_routes(), BTreeSet::from(["web"]));
}

#[test]
fn a_listener_that_reads_nothing_leads_nowhere_without_routes_and_waits_for_none() {
    let opaque = Listener {
        protocol: ListenerProtocol::Tcp,
        ..listener("outbound")
    };
    let mut mesh = mesh([Resource::Listener(opaque)]);
    assert!(mesh.wanted_routes().is_empty());
    assert_eq!(shown(&mut mesh).0, ["outbound"]);
}

#[test]
fn endpoints_are_asked_for_at_once_or_at_first_use() {
    let mut mesh = mesh([
        Resource::Listener(listener("web")),
        routes("web", "late"),
        cluster("late", Discovery::OnDemand),
        cluster("soon", Discovery::Eager),
        cluster("known", Discovery::Static),
    ]);
    assert_eq!(mesh.wanted_endpoints(), BTreeSet::from(["soon"]));
    mesh.use_listener("nobody");
    assert_eq!(mesh.wanted_endpoints(), BTreeSet::from(["soon"]));
    mesh.use_listener("web");
    assert_eq!(mesh.wanted_endpoints(), BTreeSet::from(["late", "soon"]));
    let pending = |name: &str, discovery| (name.to_owned(), discovery, 0);
    let expected = [
        pending("known", Discovery::Static),
        pending("late", Discovery::OnDemand),
        pending("soon", Discovery::Eager),
    ];
    assert_eq!(shown(&mut mesh).1, expected);
    mesh.add(endpoints("late", &["10.77.0.2:80", "10.77.0.3:80"]));
    mesh.remove(Kind::Endpoints, "soon");
    assert_eq!(
        shown(&mut mesh).1[1],
        ("late".to_owned(), Discovery::Static, 2)
    );
    assert_eq!(shown(&mut mesh).1[2], pending("soon", Discovery::Static));
}

#[test]
fn a_route_that_moves_to_another_cluster_of_a_used_listener_has_it_asked_for() {
    let mut mesh = mesh([
        Resource::Listener(listener("web")),
        routes("web", "old"),
        cluster("old", Discovery::OnDemand),
        cluster("new", Discovery::OnDemand),
    ]);
    mesh.use_listener("web");
    mesh.add(routes("web", "new"));
    assert_eq!(mesh.wanted_endpoints(), BTreeSet::from(["new"]));
}

#[test]
fn a_cluster_that_nobody_described_has_no_endpoints() {
    let mut mesh = mesh([Resource::Listener(listener("web")), routes("web", "gone")]);
    assert_eq!(
        shown(&mut mesh).1,
        [("gone".to_owned(), Discovery::Static, 0)]
    );
}

#[test]
fn what_is_gone_and_back_at_once_has_what_belonged_to_it() {
    let mut mesh = mesh([
        Resource::Listener(listener("web")),
        routes("web", "c"),
        cluster("c", Discovery::Eager),
        endpoints("c", &["10.77.0.2:80"]),
    ]);
    let before = shown(&mut mesh);
    mesh.remove(Kind::Listener, "web");
    mesh.remove(Kind::Cluster, "c");
    mesh.add(cluster("c", Discovery::Eager));
    mesh.add(Resource::Listener(listener("web")));
    // Both are asked for as before, so nobody says again what they are.
    assert_eq!(shown(&mut mesh), before);
    assert_eq!(before.1, [("c".to_owned(), Discovery::Static, 1)]);
}

#[test]
fn what_is_removed_is_forgotten_with_what_belonged_to_it() {
    let bundle = model::TrustBundle {
        name: TRUST_BUNDLE.to_owned(),
        authorities: "a".to_owned(),
        revocations: String::new(),
    };
    let mut mesh = mesh([
        Resource::Listener(listener("web")),
        routes("web", "c"),
        cluster("c", Discovery::Eager),
        endpoints("c", &["10.77.0.2:80"]),
        Resource::Bundle(bundle),
    ]);
    mesh.use_listener("web");
    for (kind, name) in [
        (Kind::Listener, "web"),
        (Kind::Cluster, "c"),
        (Kind::Secret, TRUST_BUNDLE),
    ] {
        mesh.remove(kind, name);
    }
    assert_eq!(shown(&mut mesh), (vec![], vec![]));
    assert!(mesh.wanted_routes().is_empty() && mesh.wanted_endpoints().is_empty());
    mesh.forget(Kind::Routes, "web");
    mesh.forget(Kind::Endpoints, "c");
    let bundle = mesh.find(Kind::Secret, TRUST_BUNDLE);
    assert!(bundle.is_some(), "nobody would be trusted");
    mesh.add(Resource::Listener(listener("web")));
    assert_eq!(shown(&mut mesh).0, [""; 0]);
}

#[test]
fn only_what_is_not_known_yet_is_asked_for_at_first_use() {
    let mut mesh = mesh([
        Resource::Listener(listener("web")),
        routes("web", "late"),
        cluster("late", Discovery::OnDemand),
    ]);
    assert_eq!(mesh.use_listener("web"), ["late"]);
    assert_eq!(mesh.use_listener("web"), [""; 0]);
    mesh.forget(Kind::Endpoints, "late");
    assert_eq!(shown(&mut mesh).1[0].1, Discovery::OnDemand);
}

#[test]
fn what_is_not_asked_for_any_more_is_forgotten() {
    let mut mesh = mesh([
        cluster("c", Discovery::Eager),
        endpoints("c", &["10.77.0.2:80"]),
    ]);
    mesh.forget(Kind::Endpoints, "c");
    let pending = ("c".to_owned(), Discovery::Eager, 0);
    assert_eq!(shown(&mut mesh).1, [pending]);
}

#[test]
fn endpoints_of_an_earlier_life_are_asked_for_again_if_somebody_leads_to_them() {
    let mut mesh = mesh([
        endpoints("used", &["10.77.0.2:80"]),
        endpoints("left", &["10.77.0.3:80"]),
        cluster("used", Discovery::OnDemand),
        cluster("left", Discovery::OnDemand),
        Resource::Listener(listener("web")),
        routes("web", "used"),
    ]);
    mesh.recall_use();
    assert_eq!(mesh.wanted_endpoints(), BTreeSet::from(["used"]));
    let known = ("used".to_owned(), Discovery::Static, 1);
    let forgotten = ("left".to_owned(), Discovery::OnDemand, 0);
    assert_eq!(shown(&mut mesh).1, [forgotten, known]);
}

#[test]
fn routes_of_another_name_belong_to_all_listeners_that_name_them() {
    let foreign = |name: &str, routes| Resource::Foreign {
        listener: listener(name),
        routes,
    };
    let shared = || RouteSource::Named("shared".to_owned());
    let inline = RouteSource::Inline(vec![route("inside")]);
    let mut mesh = mesh([
        foreign("a", shared()),
        foreign("b", shared()),
        foreign("c", inline),
    ]);
    assert_eq!(mesh.wanted_routes(), BTreeSet::from(["shared"]));
    assert_eq!(mesh.assemble().0.len(), 1, "the others wait");
    mesh.add(routes("shared", "outside"));
    let leads = |mesh: &mut Mesh| -> Vec<_> {
        let (listeners, _) = mesh.assemble();
        let lead = |it: &Arc<Listener>| (it.name.clone(), it.routes[0].backends[0].cluster.clone());
        listeners.iter().map(lead).collect()
    };
    let all = ["a outside", "b outside", "c inside"];
    let all = all.map(|pair| pair.split_once(' ').unwrap());
    let expected = all.map(|(name, cluster)| (name.to_owned(), cluster.to_owned()));
    assert_eq!(leads(&mut mesh), expected);
    mesh.remove(Kind::Listener, "a");
    assert_eq!(leads(&mut mesh), expected[1..]);
    mesh.add(Resource::Listener(listener("b")));
    assert_eq!(mesh.wanted_routes(), BTreeSet::from(["b"]));
    let kept = mesh.find(Kind::Listener, "c").unwrap();
    assert_eq!(
        kept,
        foreign("c", RouteSource::Inline(vec![route("inside")]))
    );
}

#[test]
fn what_stays_the_same_is_shared_with_the_configuration_in_use() {
    let web = || Resource::Listener(listener("web"));
    let mut mesh = mesh([
        web(),
        routes("web", "one"),
        cluster("one", Discovery::OnDemand),
    ]);
    let ((listeners, clusters), again) = (mesh.assemble(), mesh.assemble());
    assert!(Arc::ptr_eq(&listeners[0], &again.0[0]));
    assert!(Arc::ptr_eq(&clusters[0], &again.1[0]));
    let is_known = |mesh: &Mesh| mesh.find(Kind::Routes, "web") == Some(routes("web", "one"));
    assert!(is_known(&mesh));
    // What is told again does not lose its routes, nor does a configuration that is in use.
    mesh.add(web());
    assert!(is_known(&mesh) && listeners[0].routes == [route("one")]);
    assert_eq!(mesh.assemble().0[0].routes, [route("one")]);
    mesh.add(routes("web", "two"));
    assert_eq!(mesh.assemble().0[0].routes, [route("two")]);
    mesh.forget(Kind::Routes, "web");
    assert_eq!(mesh.find(Kind::Routes, "web"), None);
    assert!(mesh.assemble().0.is_empty());
    mesh.add(routes("web", "two"));
    assert_eq!(mesh.assemble().0.len(), 1);
    mesh.remove(Kind::Listener, "web");
    mesh.forget(Kind::Routes, "web");
    assert_eq!(mesh.find(Kind::Routes, "web"), None);
}
