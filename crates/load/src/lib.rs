//! An open-loop and closed-loop load generator and echo server.
