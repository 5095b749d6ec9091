//! Envoy's certificate and key, told over a unix socket (SDS) as soon as there is another. Used by
//! `envoy`. Must never tell anything else, nor keep what it has told.

use crate::control::Proof;
use crate::log;
use prost::Message;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use xds::CERTIFICATE;
use xds::grpc::server::{Call, Limits, accept};
use xds::grpc::{Code, Error, Receiver, Sender, Status};
use xds::kind::Kind;
use xds::proto::core::DataSource;
use xds::proto::discovery::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use xds::proto::google::Any;
use xds::proto::tls::{Secret, TlsCertificate};

const STREAM: &str = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets";
const DELTA: &str = "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets";

/// Streams at once: Envoy has one for each way in which listeners and clusters ask.
const STREAMS_MAX: u32 = 64;
/// Longest request: Envoy says who it is in it, with a list of all that it is made of.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Serves a connection of Envoy's until it ends.
pub(super) async fn serve(stream: UnixStream, proofs: watch::Receiver<Option<Proof>>) {
    let limits = Limits {
        streams: STREAMS_MAX,
        message_bytes: MESSAGE_BYTES_MAX,
        ..Limits::default()
    };
    let Ok(mut connection) = accept(stream, &limits).await else {
        return;
    };
    let mut streams = JoinSet::new();
    while let Some(Ok(call)) = connection.next().await {
        streams.spawn(answer(call, proofs.clone()));
        while streams.try_join_next().is_some() {}
    }
}

async fn answer(call: Call, proofs: watch::Receiver<Option<Proof>>) {
    let dialect = match call.path.as_str() {
        STREAM => Dialect::StateOfTheWorld,
        DELTA => Dialect::Delta,
        _ => return call.refuse(&Status::new(Code::Unimplemented, "secrets only")),
    };
    let Ok((sender, receiver)) = call.open() else {
        return;
    };
    let stream = Stream {
        dialect,
        sender,
        receiver,
        proofs,
        is_asked: false,
        told: None,
        count: 0,
    };
    stream.run().await;
}

/// Which of the two methods was called.
#[derive(Clone, Copy)]
enum Dialect {
    StateOfTheWorld,
    Delta,
}

/// What a request says, in either dialect.
struct Asked {
    kind: String,
    names: Vec<String>,
    /// Whether it answers nothing.
    is_fresh: bool,
    refusal: Option<String>,
}

/// Who asks, and what it has been told.
struct Stream {
    dialect: Dialect,
    sender: Sender,
    receiver: Receiver,
    proofs: watch::Receiver<Option<Proof>>,
    is_asked: bool,
    /// The chain that was told last.
    told: Option<Arc<str>>,
    count: u64,
}

impl Stream {
    async fn run(mut self) {
        let status = match self.converse().await {
            Ok(status) => status,
            Err(error) => Status::new(Code::InvalidArgument, error.to_string()),
        };
        // One that is gone already needs no answer.
        let _ = self.sender.finish(&status);
    }

    /// Until Envoy ends it, or asks for what is not here.
    async fn converse(&mut self) -> Result<Status, Error> {
        loop {
            tokio::select! {
                asked = hear(self.dialect, &mut self.receiver) => match asked? {
                    Some(asked) => {
                        if let Err(status) = self.take(&asked) {
                            return Ok(status);
                        }
                    }
                    None => return Ok(Status::ok()),
                },
                changed = self.proofs.changed() => if changed.is_err() {
                    return Ok(Status::new(Code::Unavailable, "the sidecar ends"));
                },
            }
            self.tell().await?;
        }
    }

    fn take(&mut self, asked: &Asked) -> Result<(), Status> {
        if let Some(refusal) = &asked.refusal {
            log::error(format_args!("Envoy refuses its certificate: {refusal}"));
        }
        let is_known = |name: &String| name == CERTIFICATE;
        if asked.kind != Kind::Secret.type_url() || !asked.names.iter().all(is_known) {
            let message = format!("here is the secret `{CERTIFICATE}` and nothing else");
            return Err(Status::new(Code::InvalidArgument, message));
        }
        self.is_asked |= !asked.names.is_empty();
        if asked.is_fresh && !asked.names.is_empty() {
            self.told = None;
        }
        Ok(())
    }

    /// Tells the certificate, if it was asked for and is another than before.
    async fn tell(&mut self) -> Result<(), Error> {
        let proof = self.proofs.borrow_and_update().clone();
        let Some(proof) = proof.filter(|_| self.is_asked) else {
            return Ok(());
        };
        if self.told.as_deref() == Some(&*proof.chain) {
            return Ok(());
        }
        self.count += 1;
        let (version, secret) = (self.count.to_string(), encode(&proof));
        match self.dialect {
            Dialect::StateOfTheWorld => self.sender.send(&all(version, secret)).await?,
            Dialect::Delta => self.sender.send(&changed(version, secret)).await?,
        }
        self.told = Some(proof.chain);
        Ok(())
    }
}

async fn hear(dialect: Dialect, receiver: &mut Receiver) -> Result<Option<Asked>, Error> {
    let refusal = |status: xds::proto::google::Status| status.message;
    Ok(match dialect {
        Dialect::StateOfTheWorld => receiver.recv::<DiscoveryRequest>().await?.map(|it| Asked {
            kind: it.type_url,
            names: it.resource_names,
            is_fresh: it.response_nonce.is_empty(),
            refusal: it.error_detail.map(refusal),
        }),
        Dialect::Delta => receiver
            .recv::<DeltaDiscoveryRequest>()
            .await?
            .map(|it| Asked {
                kind: it.type_url,
                names: it.resource_names_subscribe,
                is_fresh: it.response_nonce.is_empty(),
                refusal: it.error_detail.map(refusal),
            }),
    })
}

fn encode(proof: &Proof) -> Any {
    let inline = |pem: &str| {
        Some(DataSource {
            inline_string: Some(pem.to_owned()),
            inline_bytes: None,
        })
    };
    let secret = Secret {
        name: CERTIFICATE.to_owned(),
        tls_certificate: Some(TlsCertificate {
            certificate_chain: inline(&proof.chain),
            private_key: inline(&proof.key.to_pem()),
        }),
        validation_context: None,
    };
    Any {
        type_url: Kind::Secret.type_url().to_owned(),
        value: secret.encode_to_vec().into(),
    }
}

fn all(version: String, secret: Any) -> DiscoveryResponse {
    DiscoveryResponse {
        version_info: version.clone(),
        resources: vec![secret],
        type_url: Kind::Secret.type_url().to_owned(),
        nonce: version,
        control_plane: None,
    }
}

fn changed(version: String, secret: Any) -> DeltaDiscoveryResponse {
    let resource = Resource {
        version: version.clone(),
        resource: Some(secret),
        name: CERTIFICATE.to_owned(),
        ..Resource::default()
    };
    DeltaDiscoveryResponse {
        resources: vec![resource],
        type_url: Kind::Secret.type_url().to_owned(),
        nonce: version,
        ..DeltaDiscoveryResponse::default()
    }
}

#[cfg(test)]
mod tests;
