//! The authority from outside: who gets a certificate and who does not, what is taken back, and
//! how roots replace each other; with a clock of the test's own and a directory of its own.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod external;
mod leaves;
mod operator;
mod removal;
mod restart;
mod rotation;
mod sign;
mod tokens;
mod world;
