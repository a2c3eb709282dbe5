//! Files that other processes replace, for gateway and SDK: read with a bound, and followed as their content changes.

mod follower;
mod regular_file;

pub use follower::Follower;
pub use regular_file::read_regular_file;
