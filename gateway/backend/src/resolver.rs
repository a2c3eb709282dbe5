//! The addresses of a backend: what the host of its URL resolves to.

use std::{fmt::Debug, io, net::SocketAddr};

use foldhash::fast::FixedState;
use futures_util::future::BoxFuture;
use std::hash::BuildHasher;
use tokio::net::lookup_host;

/// The most addresses of a backend that are connected to. Each has a connection, handshakes each second and a node
/// table of its own.
pub(super) const MOST_ADDRESSES: usize = 16;

/// Resolves the hosts of backends.
pub trait Resolve: Debug + Send + Sync {
    /// All addresses of a host. A name without addresses is an error or an empty list.
    fn resolve<'r>(&'r self, host: &'r str, port: u16) -> BoxFuture<'r, io::Result<Vec<SocketAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'r>(&'r self, host: &'r str, port: u16) -> BoxFuture<'r, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }
}

/// At most [`MOST_ADDRESSES`] of these addresses, in order. Replicas of the gateway choose different ones, so that all
/// addresses are used.
pub(super) fn subset(gateway: &str, mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.len() > MOST_ADDRESSES {
        addresses.sort_by_cached_key(|address| FixedState::default().hash_one((gateway, address)));
        addresses.truncate(MOST_ADDRESSES);
        addresses.sort_unstable();
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(count: u8) -> Vec<SocketAddr> {
        (0..count).rev().map(|last| SocketAddr::from(([10, 0, 0, last], 9000))).collect()
    }

    #[test]
    fn few_addresses_are_all_used_once() {
        let twice: Vec<_> = addresses(3).into_iter().chain(addresses(3)).collect();
        let ordered: Vec<_> = addresses(3).into_iter().rev().collect();
        assert_eq!(subset("gateway-0", twice), ordered);
    }

    #[test]
    fn of_many_each_replica_uses_some_and_always_the_same_ones() {
        let some = subset("gateway-0", addresses(100));
        assert_eq!(some.len(), MOST_ADDRESSES);
        let mut turned = addresses(100);
        turned.rotate_left(33);
        assert_eq!(subset("gateway-0", turned), some);
        assert_ne!(subset("gateway-1", addresses(100)), some);
    }
}
