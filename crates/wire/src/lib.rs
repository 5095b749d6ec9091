//! Sans-io protocols.
