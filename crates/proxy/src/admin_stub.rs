//! Stub.
use std::sync::Arc;
pub struct State;
#[derive(Clone,Copy)]
pub enum Surface { Admin, Metrics }
impl State {
    pub fn new(_: Arc<crate::snapshot::Snapshot>) -> Arc<Self> { Arc::new(Self) }
    pub fn set_ready(&self, _: bool) {}
    pub fn publish(&self, _: Arc<crate::snapshot::Snapshot>) {}
    pub fn describe(&self, _: Arc<crate::telemetry::metrics::Registry>, _: Box<dyn Fn() -> u64 + Send + Sync>) {}
}
pub async fn serve(_: tokio::net::TcpListener, _: Arc<State>, _: Surface) {}
