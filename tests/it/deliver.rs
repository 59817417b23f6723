//! Rows reach the receiver.
