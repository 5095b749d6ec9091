//! Parts of the `measure` program: the two ends of the load, the contestants, the arithmetic.

pub mod contestant;
pub mod echo;
pub mod figures;
pub mod load;

/// Pins the calling thread (and processes it starts) to one core.
///
/// # Errors
/// When there is no such core.
pub fn pin(cpu: usize) -> std::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}
