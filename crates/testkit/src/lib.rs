//! The fake world for tests: scripted peers, echo servers, a test CA.
