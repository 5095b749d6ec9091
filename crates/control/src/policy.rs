//! Who may call whom, and by which rule: what sidecars would do, said for people. Asked through the
//! operator's socket, and by `leno policy check` of files. Pure; must never say anything else than
//! what `translate` tells the sidecars.

use serde::Serialize;

use crate::index::Index;
use crate::kinds::{AccountKey, Interception, Mode, Object, ServiceKey, Workload, WorkloadKey};
use crate::translate::{Access, access};

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Whether it is let in.
    pub allowed: bool,
    /// Whether the caller's sidecar is told of a Service that leads there.
    pub known: bool,
    /// For people: one sentence without a full stop.
    pub reason: String,
    /// What decides.
    pub rule: Rule,
}

/// What decides whether a call is let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Rule {
    /// The called Workload lets in everybody.
    Permissive,
    /// A policy names the caller.
    AccessPolicy {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Where it is written.
        origin: String,
    },
    /// The called Workload is strict, and no policy names the caller.
    NoPolicy,
    /// The called Workload is strict, and the call comes in plaintext.
    NoIdentity,
    /// No Service leads there, and what is no Service may not be called.
    NoEgress,
    /// Nobody of the mesh answers there.
    Outside,
}

/// A name that nobody has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// Of a caller.
    #[error("there is no Workload {0}; callers are Workloads or their instances")]
    Source(WorkloadKey),
    /// Of somebody who is called.
    #[error("there is neither a Workload nor a Service {0}; check the name and the namespace")]
    Destination(WorkloadKey),
}

impl Index {
    /// Whether the Workload `source` may call the Workload, instance or Service `destination`, a
    /// Workload going before a Service of its name.
    ///
    /// # Errors
    /// One of the names is unknown.
    pub fn explain(
        &self,
        source: &WorkloadKey,
        destination: &WorkloadKey,
    ) -> Result<Decision, Unknown> {
        let caller = self.called_so(source);
        let (from, caller) = caller.ok_or_else(|| Unknown::Source(source.clone()))?;
        let call = Call {
            index: self,
            from,
            caller,
        };
        if let Some((to, called)) = self.called_so(destination) {
            return Ok(call.to_workload(&to, called));
        }
        let service = ServiceKey::new(&*destination.namespace, &*destination.name);
        let decision = call.to_service(&service);
        decision.ok_or_else(|| Unknown::Destination(destination.clone()))
    }

    /// The Workload of this name, or whose instance has it.
    fn called_so(&self, key: &WorkloadKey) -> Option<(WorkloadKey, &Workload)> {
        let workload = self.workload(key).map(|found| (key.clone(), found));
        workload.or_else(|| {
            let instance = self.instance(key)?;
            Some((instance.of, instance.workload))
        })
    }
}

/// A call under way.
struct Call<'a> {
    index: &'a Index,
    from: WorkloadKey,
    caller: &'a Workload,
}

impl Call<'_> {
    /// Of several Workloads the first that refuses decides; `None` if there is no such Service.
    fn to_service(&self, key: &ServiceKey) -> Option<Decision> {
        let service = self.index.service(key)?;
        let selected = self.index.selected(&key.namespace, service).into_iter();
        let slices = self.index.slices(key);
        let addresses = slices.flat_map(|slice| slice.addresses.iter().copied());
        let sliced = addresses.filter_map(|address| self.index.at(address).map(|found| found.of));
        let workloads = selected.chain(sliced);
        let decisions = workloads.filter_map(|to| {
            let called = self.index.workload(&to)?;
            Some(self.to_workload(&to, called))
        });
        let (good, bad): (Vec<_>, Vec<_>) = decisions.partition(|one| one.allowed);
        let is_split = !good.is_empty() && !bad.is_empty();
        let Some(mut decision) = bad.into_iter().chain(good).next() else {
            return Some(self.outside(key));
        };
        if is_split {
            decision.reason += "; others of this Service let it in";
        }
        Some(decision)
    }

    fn outside(&self, key: &ServiceKey) -> Decision {
        Decision {
            allowed: true,
            known: self.is_outbound(),
            reason: format!("nobody of the mesh answers for the Service {key}; it is plaintext"),
            rule: Rule::Outside,
        }
    }

    fn to_workload(&self, to: &WorkloadKey, called: &Workload) -> Decision {
        let known = self.is_known(to, called);
        let (allowed, rule, reason) = match self.index.mode(called) {
            _ if !known && self.is_outbound() && !self.index.mesh().egress => (
                false,
                Rule::NoEgress,
                format!(
                    "no Service that {} may call leads there, and egress is off",
                    self.from
                ),
            ),
            Mode::Permissive => (true, Rule::Permissive, self.permissive(to, called, known)),
            Mode::Strict => self.strict(to, called, known),
        };
        Decision {
            allowed,
            known,
            reason,
            rule,
        }
    }

    fn permissive(&self, to: &WorkloadKey, called: &Workload, known: bool) -> String {
        let how = match known && called.sidecar.is_inbound() {
            true => "with mutual TLS",
            false => "in plaintext",
        };
        format!("{to} is permissive and lets in everybody; this call comes {how}")
    }

    fn strict(&self, to: &WorkloadKey, called: &Workload, known: bool) -> (bool, Rule, String) {
        let (caller, protected) = (&self.caller.account, &called.account);
        let Some((rule, named)) = self.policy(protected, caller) else {
            let reason = format!(
                "{to} is strict, and no AccessPolicy for the service account {protected} names \
                 {caller}"
            );
            return (false, Rule::NoPolicy, reason);
        };
        if !self.is_outbound() {
            let reason = format!(
                "{to} is strict, and what {} calls does not go through a sidecar that would \
                 prove who it is",
                self.from
            );
            return (false, Rule::NoIdentity, reason);
        }
        if !known {
            let reason = format!("{to} is strict, and no Service leads there with mutual TLS");
            return (false, Rule::NoIdentity, reason);
        }
        let reason = format!("{to} is strict, and the AccessPolicy {named} names {caller}");
        (true, rule, reason)
    }

    /// The first policy for `protected` that names `caller`, and its name.
    fn policy(&self, protected: &AccountKey, caller: &AccountKey) -> Option<(Rule, String)> {
        let mut policies = self.index.policy_resources(protected);
        let found = policies.find(|resource| match &resource.object {
            Object::AccessPolicy(policy) => policy.callers.iter().any(|(key, _)| key == caller),
            _ => false,
        })?;
        let (namespace, name) = (found.key.namespace.clone(), found.key.name.clone());
        let named = format!("{namespace}/{name}");
        let origin = found.origin.to_string();
        let rule = Rule::AccessPolicy {
            namespace,
            name,
            origin,
        };
        Some((rule, named))
    }

    /// Whether what the caller calls goes through its sidecar.
    const fn is_outbound(&self) -> bool {
        let sidecar = &self.caller.sidecar;
        let outbound = matches!(
            sidecar.interception,
            Interception::Both | Interception::Outbound
        );
        sidecar.enabled && outbound
    }

    /// Whether the caller's sidecar is told of a Service that leads to the Workload.
    fn is_known(&self, to: &WorkloadKey, called: &Workload) -> bool {
        let mut leading = self.index.selecting(&to.namespace, called);
        for instance in self.index.instances_of(to) {
            for address in instance.addresses {
                let slices = self.index.slices_at(*address);
                leading.extend(slices.map(|slice| slice.service.clone()));
            }
        }
        let own = self.index.selecting(&self.from.namespace, self.caller);
        let is_told = |key: &ServiceKey| {
            let service = self.index.service(key);
            let access = service.map(|service| access(self.index, key, service));
            match access {
                Some(Access::Open) => true,
                Some(Access::Closed(callers)) => {
                    own.contains(key) || callers.contains(&self.caller.account)
                }
                None => false,
            }
        };
        self.is_outbound() && leading.iter().any(is_told)
    }
}

#[cfg(test)]
mod tests;
