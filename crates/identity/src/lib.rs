//! SPIFFE ids, certificates and TLS configurations of the mesh.
