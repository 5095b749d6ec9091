//! The mesh that is measured: Services, their Workloads and who uses whom, as the files that a
//! control plane reads. Called by `measure` and `fleet`. Pure; must never depend on what runs.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

use serde::Serialize;

/// Resources of so many Services go into one file, as people would keep them.
const SERVICES_OF_FILE: usize = 100;
/// Instances live in 10.77.0.0/16, and move to 10.128.0.0/9.
const INSTANCES_MAX: usize = 60_000;
/// The control plane reads no more than 10,000 files; each Workload has one for its status.
const WORKLOADS_MAX: usize = 9_000;
/// The namespace of everything.
pub(super) const NAMESPACE: &str = "default";

/// Who may call whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Policies let in those that use a Service; a sidecar is told of these Services alone
    Scoped,
    /// Everybody may call everybody; a sidecar is told of all, and asks for endpoints when it uses
    /// a Service first
    Permissive,
}

/// How large the mesh is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Sidecars that connect.
    pub sidecars: usize,
    /// Services, each of one Workload.
    pub services: usize,
    /// Instances of each Workload.
    pub endpoints: usize,
    /// Services that each sidecar uses, its own among them.
    pub interest: usize,
    /// Who may call whom.
    pub mode: Mode,
}

impl Mode {
    /// As it is written on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Scoped => "scoped",
            Self::Permissive => "permissive",
        }
    }
}

impl Shape {
    /// Whether there can be such a mesh.
    ///
    /// # Errors
    /// What to change.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let some = [self.sidecars, self.services, self.endpoints, self.interest];
        anyhow::ensure!(
            some.iter().all(|count| *count > 0),
            "0 is too few of anything"
        );
        let instances = self.sidecars.max(self.services * self.endpoints);
        anyhow::ensure!(
            instances <= INSTANCES_MAX && self.workloads() <= WORKLOADS_MAX,
            "at most {INSTANCES_MAX} instances and {WORKLOADS_MAX} Workloads: ask for fewer \
             sidecars or Services, or for more endpoints"
        );
        Ok(())
    }

    /// Those of the Services, those that only call, and one for a sidecar that is real.
    pub(super) fn workloads(&self) -> usize {
        let serving = self.services * self.endpoints;
        let calling = self.sidecars.saturating_sub(serving);
        self.services + calling.div_ceil(self.endpoints) + 1
    }

    /// The Workload of the sidecar that is real.
    pub(super) fn real(&self) -> usize {
        self.workloads() - 1
    }

    /// The instance whose sidecar has that number: all Workloads have their share of sidecars.
    pub(super) fn instance(&self, sidecar: usize) -> usize {
        let serving = self.services * self.endpoints;
        match self.sidecars < serving {
            true => sidecar * serving / self.sidecars,
            false => sidecar,
        }
    }

    /// The Workload of an instance.
    pub(super) const fn workload_of(&self, instance: usize) -> usize {
        instance / self.endpoints
    }

    /// The Services that a Workload's sidecars use.
    pub(super) fn used_by(&self, workload: usize) -> impl Iterator<Item = usize> {
        let services = self.services;
        (0..self.interest.min(services)).map(move |step| (workload + step) % services)
    }

    /// The Workloads that use a Service.
    fn users_of(&self, service: usize) -> BTreeSet<usize> {
        let (services, workloads) = (self.services, self.workloads());
        let first =
            (0..self.interest.min(services)).map(|step| (service + services - step) % services);
        first
            .flat_map(|first| (first..workloads).step_by(services))
            .collect()
    }

    /// How many of the sidecars use each Service.
    pub(super) fn audiences(&self) -> Vec<usize> {
        let mut audiences = vec![0; self.services];
        for sidecar in 0..self.sidecars {
            let workload = self.workload_of(self.instance(sidecar));
            self.used_by(workload)
                .for_each(|service| audiences[service] += 1);
        }
        audiences
    }

    /// Names and texts of all files.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let mut files = vec![("mesh.yaml".to_owned(), self.head())];
        let workloads: Vec<usize> = (0..self.workloads()).collect();
        for (number, some) in workloads.chunks(SERVICES_OF_FILE).enumerate() {
            let text = some
                .iter()
                .map(|workload| self.resources(*workload))
                .collect();
            files.push((format!("workloads-{number:03}.yaml"), text));
        }
        files.extend(workloads.iter().map(|workload| {
            let addresses: Vec<_> = self.instances(*workload).map(address).collect();
            (status_file(*workload), status(*workload, &addresses))
        }));
        files
    }

    /// Where the instances of a Workload live at first.
    pub(super) fn instances(&self, workload: usize) -> std::ops::Range<usize> {
        let first = workload * self.endpoints;
        match workload == self.real() {
            true => first..first + 1,
            false => first..first + self.endpoints,
        }
    }

    fn head(&self) -> String {
        let mode = match self.mode {
            Mode::Scoped => "strict",
            Mode::Permissive => "permissive",
        };
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n---\n\
             apiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {{name: mesh}}\n\
             spec: {{mode: {mode}}}\n"
        )
    }

    /// A Workload, the Service of it, and who may call that.
    fn resources(&self, workload: usize) -> String {
        let name = workload_name(workload);
        let mut text = format!(
            "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\n\
             metadata: {{name: {name}, labels: {{app: {name}}}}}\n\
             spec:\n  serviceAccount: {name}\n  \
             ports: [{{name: http, port: 8080, protocol: http}}]\n"
        );
        if workload >= self.services {
            return text;
        }
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {service}}}\nspec:\n  \
             selector: {{app: {name}}}\n  \
             ports: [{{name: http, port: 80, targetPort: http, appProtocol: http}}]\n",
            service = service_name(workload),
        );
        if self.mode == Mode::Scoped {
            let callers = self.users_of(workload).into_iter().map(workload_name);
            let callers: String = callers
                .map(|caller| format!("  - {{serviceAccount: {caller}}}\n"))
                .collect();
            let _ = write!(
                text,
                "---\napiVersion: leno.dev/v1alpha1\nkind: AccessPolicy\n\
                 metadata: {{name: callers-of-{name}}}\n\
                 spec:\n  serviceAccount: {name}\n  callers:\n{callers}"
            );
        }
        text
    }
}

/// The Workload's name, which is that of its account, too.
pub(super) fn workload_name(workload: usize) -> String {
    format!("w{workload:05}")
}

/// The Service's name.
pub(super) fn service_name(service: usize) -> String {
    format!("s{service:05}")
}

/// The instance's name.
pub(super) fn instance_name(shape: &Shape, instance: usize) -> String {
    let workload = shape.workload_of(instance);
    let ordinal = instance - workload * shape.endpoints;
    format!("{}-{ordinal}", workload_name(workload))
}

/// The cluster that leads to a Service.
pub(super) fn cluster_name(service: usize) -> String {
    format!(
        "outbound|80|{}.{NAMESPACE}.svc.cluster.local",
        service_name(service)
    )
}

/// The Service that a cluster leads to.
pub(super) fn service_of(cluster: &str) -> Option<usize> {
    let digits = cluster.strip_prefix("outbound|80|s")?.split('.').next()?;
    digits.parse().ok()
}

/// The file that says where the instances of a Workload live.
pub(super) fn status_file(workload: usize) -> String {
    format!("status-{}.yaml", workload_name(workload))
}

/// What is in it.
pub(super) fn status(workload: usize, addresses: &[Ipv4Addr]) -> String {
    let name = workload_name(workload);
    let instances: String = (addresses.iter().enumerate())
        .map(|(ordinal, address)| {
            format!("  - {{name: {name}-{ordinal}, addresses: [{address}], ready: true}}\n")
        })
        .collect();
    format!(
        "apiVersion: leno.dev/v1alpha1\nkind: WorkloadStatus\nmetadata: {{name: {name}}}\n\
         status:\n  instances:\n{instances}"
    )
}

/// Where an instance lives at first.
pub(super) fn address(instance: usize) -> Ipv4Addr {
    let number = u32::try_from(instance).unwrap_or(u32::MAX);
    Ipv4Addr::from(0x0a4d_0000 + number + 2)
}

/// Where the instance lives that a change has moved: no two changes have the same.
pub(super) fn moved(change: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a80_0000 + change)
}

/// The change that has moved an instance there.
pub(super) fn change_of(address: Ipv4Addr) -> Option<u32> {
    u32::from(address).checked_sub(0x0a80_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sidecars: usize, services: usize) -> Shape {
        Shape {
            sidecars,
            services,
            endpoints: 2,
            interest: 3,
            mode: Mode::Scoped,
        }
    }

    #[test]
    fn as_many_use_a_service_as_its_policy_lets_in() {
        for shape in [shape(20, 10), shape(7, 10), shape(50, 10), shape(4, 2)] {
            shape.check().unwrap();
            let audiences = shape.audiences();
            for (service, audience) in audiences.into_iter().enumerate() {
                let users = shape.users_of(service);
                let is_user =
                    |workload: &usize| shape.used_by(*workload).any(|used| used == service);
                assert!(
                    (0..shape.workloads())
                        .filter(is_user)
                        .eq(users.iter().copied())
                );
                let sidecars = (0..shape.sidecars)
                    .filter(|one| users.contains(&shape.workload_of(shape.instance(*one))));
                assert_eq!(sidecars.count(), audience, "{shape:?}");
            }
        }
    }

    #[test]
    fn sidecars_are_of_instances_that_the_files_name() {
        for shape in [shape(20, 10), shape(7, 10), shape(51, 10)] {
            let text: String = shape.files().into_iter().map(|(_, text)| text).collect();
            for sidecar in 0..shape.sidecars {
                let name = instance_name(&shape, shape.instance(sidecar));
                assert!(
                    text.contains(&format!("{{name: {name}, ")),
                    "{name}: {shape:?}"
                );
            }
            let real = format!("{{name: {}-0, ", workload_name(shape.real()));
            assert!(text.contains(&real));
        }
    }

    #[test]
    fn names_and_addresses_read_back() {
        assert_eq!(service_of(&cluster_name(42)), Some(42));
        assert_eq!(service_of("passthrough"), None);
        assert_eq!(change_of(moved(70_000)), Some(70_000));
        assert_eq!(change_of(address(60_000)), None);
    }
}
