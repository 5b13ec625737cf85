//! Connections, the statements that go over them, and the schema that they must find.
//!
//! | module | what it does |
//! |---|---|
//! | `connection` | a connection, and the pool |
//! | `pipeline` | several statements in one round trip |
//! | `sslmode` | `sslmode` of a URL |
//! | `tls` | encryption |
//! | `schema` | migrations |
//! | `requirements` | servers that are refused |
//! | `rights` | roles that are refused |

pub(crate) mod connection;
pub(crate) mod pipeline;
pub(crate) mod requirements;
pub(crate) mod rights;
pub(crate) mod schema;
pub(crate) mod sslmode;
pub(crate) mod tls;
