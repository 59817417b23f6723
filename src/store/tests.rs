//! The statements against real Postgres.
