//! down
