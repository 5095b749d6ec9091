//! A stock Envoy, and what stands in for its companion: a way to the control plane with the
//! workload's certificate, and that certificate on a socket.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use prost::Message;
use rustls::ClientConfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use xds::CERTIFICATE;
use xds::grpc::server::{Call, Limits, accept};
use xds::grpc::{Code, Status};
use xds::kind::Kind;
use xds::proto::core::DataSource;
use xds::proto::discovery::{DiscoveryRequest, DiscoveryResponse};
use xds::proto::google::Any;
use xds::proto::tls::{Secret, TlsCertificate};

use crate::sidecar::{Leaf, bearer, connect, dial_to, member, sign_leaf, stranger};
use crate::world::World;

/// Where it is; `None` with a word about it.
pub(super) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin");
    let mut folders = std::env::split_paths(&path).chain([beside]);
    let found = folders.find_map(|folder| binary(&folder));
    if found.is_none() {
        let is_promised = std::env::var_os("LENO_REQUIRE_ENVOY").is_some();
        assert!(!is_promised, "there is no Envoy: `make envoy`");
        eprintln!("skipped: there is no Envoy; `make envoy` brings one");
    }
    found
}

/// The program itself, or what a script of Python's package begins.
fn binary(folder: &Path) -> Option<PathBuf> {
    let packages = folder.parent()?.join("lib").read_dir();
    let packages = packages.into_iter().flatten().flatten();
    let mut packages = packages.map(|entry| entry.path().join("site-packages/envoy/_bin/envoy"));
    let inner = packages.find(|path| path.is_file());
    let own = folder.join("envoy");
    own.is_file().then(|| inner.unwrap_or(own))
}

/// One that runs, with what it connects to.
pub(super) struct Envoy {
    child: Child,
    dir: TempDir,
    _serving: JoinSet<()>,
}

impl Envoy {
    /// One for the workload `name`, under an account of the same name, in a network of its own:
    /// who intercepts has ports that are the same for all.
    pub(super) async fn start(world: &World, program: &Path, name: &str) -> Self {
        Self::start_as(world, program, name, "DELTA_GRPC").await
    }

    /// One that asks in that variant of the protocol.
    pub(super) async fn start_as(world: &World, program: &Path, name: &str, variant: &str) -> Self {
        let token = world.token(name).await;
        let channel = connect(world, stranger(world)).await;
        let leaf = Box::pin(sign_leaf(&channel, bearer(&token), name)).await;
        let leaf = leaf.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut serving = JoinSet::new();
        let xds = UnixListener::bind(dir.path().join("xds")).unwrap();
        serving.spawn(tunnel(xds, world.xds, member(&leaf.credentials)));
        let sds = UnixListener::bind(dir.path().join("sds")).unwrap();
        serving.spawn(secrets(sds, Arc::new(leaf.secret())));
        let bootstrap = dir.path().join("envoy.json");
        std::fs::write(
            &bootstrap,
            self::bootstrap(dir.path(), name, variant).to_string(),
        )
        .unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("unshare")
            .args(["--user", "--net"])
            .arg(program)
            .arg("-c")
            .arg(bootstrap)
            .args(["--concurrency", "1", "--disable-hot-restart"])
            .args(["--log-level", "warning", "--drain-time-s", "1"])
            .stderr(Stdio::from(log))
            .spawn()
            .unwrap();
        Self {
            child,
            dir,
            _serving: serving,
        }
    }

    /// A page of its admin address.
    pub(super) async fn page(&self, path: &str) -> Option<String> {
        let stream = UnixStream::connect(self.dir.path().join("admin")).await;
        let mut stream = stream.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        Some(whole(body))
    }

    /// A counter or gauge.
    pub(super) async fn stat(&self, name: &str) -> Option<u64> {
        let page = self.page(&format!("/stats?filter=^{name}$")).await?;
        let (_, value) = page.trim().rsplit_once(": ")?;
        value.parse().ok()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }
}

/// A body that comes in chunks.
fn whole(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, chunk)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        let (chunk, end) = chunk.split_at(length);
        body.push_str(chunk);
        rest = end.trim_start();
    }
    body
}

impl Drop for Envoy {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

impl Leaf {
    fn secret(&self) -> Secret {
        let inline = |text: &str| DataSource {
            inline_string: Some(text.to_owned()),
            inline_bytes: None,
        };
        Secret {
            name: CERTIFICATE.to_owned(),
            tls_certificate: Some(TlsCertificate {
                certificate_chain: Some(inline(&self.chain)),
                private_key: Some(inline(&self.key)),
            }),
            validation_context: None,
        }
    }
}

fn bootstrap(dir: &Path, name: &str, variant: &str) -> Value {
    let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let cluster = |name: &str, path: &str| {
        let address = json!({"pipe": {"path": dir.join(path)}});
        let endpoint = json!({"lb_endpoints": [{"endpoint": {"address": address}}]});
        let http2 = json!({
            "@type": format!("type.googleapis.com/{options}"),
            "explicit_http_config": {"http2_protocol_options": {}},
        });
        json!({
            "name": name,
            "load_assignment": {"cluster_name": name, "endpoints": [endpoint]},
            "typed_extension_protocol_options": {options: http2},
        })
    };
    let ads = json!({"ads": {}, "resource_api_version": "V3"});
    json!({
        "node": {"id": format!("{name}.default"), "cluster": name},
        "admin": {"address": {"pipe": {"path": dir.join("admin")}}},
        "static_resources": {"clusters": [cluster("xds", "xds"), cluster("companion", "sds")]},
        "dynamic_resources": {
            "ads_config": {
                "api_type": variant,
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}],
            },
            "cds_config": ads,
            "lds_config": ads,
        },
    })
}

/// Carries each connection to the control plane.
async fn tunnel(listener: UnixListener, to: std::net::SocketAddr, config: Arc<ClientConfig>) {
    let mut carried = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        let config = Arc::clone(&config);
        carried.spawn(async move {
            let mut far = Box::pin(dial_to(to, config)).await;
            // Either end may go at any time.
            let _ = copy_bidirectional(&mut near, &mut far).await;
        });
    }
}

/// Tells the workload's own certificate to whoever asks.
async fn secrets(listener: UnixListener, secret: Arc<Secret>) {
    let mut serving = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let secret = Arc::clone(&secret);
        serving.spawn(async move {
            let limits = Limits {
                streams: 1000,
                ..Limits::default()
            };
            let mut connection = accept(stream, &limits).await.unwrap();
            let mut calls = JoinSet::new();
            while let Some(Ok(call)) = connection.next().await {
                calls.spawn(tell(call, Arc::clone(&secret)));
            }
        });
    }
}

async fn tell(call: Call, secret: Arc<Secret>) {
    if !call.path.ends_with("/StreamSecrets") {
        return call.refuse(&Status::new(Code::Unimplemented, "StreamSecrets only"));
    }
    let (mut sender, mut receiver) = call.open().unwrap();
    let mut is_told = false;
    while let Ok(Some(request)) = receiver.recv::<DiscoveryRequest>().await {
        if let Some(detail) = request.error_detail {
            panic!("Envoy refuses its certificate: {detail:?}");
        }
        if is_told {
            continue;
        }
        is_told = true;
        let any = Any {
            type_url: Kind::Secret.type_url().to_owned(),
            value: secret.encode_to_vec().into(),
        };
        let response = DiscoveryResponse {
            version_info: "1".to_owned(),
            resources: vec![any],
            type_url: request.type_url,
            nonce: "1".to_owned(),
            control_plane: None,
        };
        if sender.send(&response).await.is_err() {
            return;
        }
    }
}
