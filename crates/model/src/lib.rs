//! The mesh's nouns as plain data.
