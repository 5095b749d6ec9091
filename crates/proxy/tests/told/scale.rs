//! A mesh of a thousand services, seen by one sidecar.

use testkit::{ControlPlane, EchoServer, until};

use crate::world::{ask, cluster, plane, serve_on_demand, start};

const SERVICES: usize = 1000;
/// A thousand services, two endpoints each, in an unoptimised program.
const KIB_MAX: u64 = 48 * 1024;

fn address(service: usize) -> String {
    format!("10.78.{}.{}:80", service / 250, service % 250 + 1)
}

fn tell_all(plane: &ControlPlane) {
    let nobody = ["10.77.0.1:8080", "10.77.0.2:8080"].map(|addr| addr.parse().unwrap());
    plane.together(|| {
        for service in 0..SERVICES {
            let name = format!("outbound|80|service-{service}.default.svc.cluster.local");
            serve_on_demand(plane, &name, &address(service), &nobody);
        }
    });
}

#[test]
fn a_thousand_services_fit_and_one_of_them_changes() {
    let (old, new) = (EchoServer::start(), EchoServer::start());
    let plane = plane();
    let small = start(&plane).anon_kib();
    tell_all(&plane);
    serve_on_demand(&plane, "web", "10.78.9.1:80", &[old.addr()]);
    let proxy = start(&plane);
    assert_eq!(ask(&proxy, "10.78.9.1:80"), 200);
    let large = proxy.anon_kib();
    println!("{SERVICES} services: {large} KiB, without them {small} KiB");
    assert!(large < KIB_MAX, "{large} KiB");
    plane.cluster(&model::Cluster {
        discovery: model::Discovery::OnDemand,
        ..cluster("web", &[new.addr()])
    });
    until("the new one is asked", || {
        assert_eq!(ask(&proxy, "10.78.9.1:80"), 200);
        new.request_count() > 0
    });
    assert_eq!(plane.seen().subscribed(xds::kind::Kind::Endpoints), ["web"]);
}
