//! Lists of node names that plugins have sent, so that calls name nodes by their positions.

use std::{collections::VecDeque, sync::Arc};

use extender_gateway_contract::protobuf::fields;
use extender_gateway_core::BackendFailure;
use extender_gateway_object::limits::LONGEST_NAME;
use extender_gateway_wire::Names;
use parking_lot::Mutex;

use super::{assumed::MOST_CHANGES, invalid, v1alpha1::Nodes};
use crate::answer::CallRefusal;

/// The most names of a list, as for an extender's call.
const MOST_NAMES: usize = 100_000;
/// The most bytes of an id.
const LONGEST_ID: usize = 64;
/// The most lists: each profile of kube-scheduler has one, and for a while its last one.
const MOST_LISTS: usize = 32;
/// The most bytes of all lists. A cluster of 15,000 nodes has some hundred thousand.
const MOST_BYTES: usize = 64 << 20;
/// The fields of a request that are counted before they are decoded.
const NODES: u32 = 2;
const NAMES: u32 = 2;
const CHANGES: u32 = 3;

/// A list of different names.
#[derive(Debug)]
struct List {
    id: String,
    names: Arc<Names>,
    bytes: usize,
}

/// The lists that were sent, those used last at the end.
#[derive(Debug, Default)]
pub(crate) struct NodeLists(Mutex<VecDeque<List>>);

/// The nodes of a call.
#[derive(Debug)]
pub(super) struct Offered {
    /// Those of the list, without a copy, if they are all.
    pub(super) names: Arc<Names>,
    /// Their positions in the list, ascending; `None` for all.
    positions: Option<Vec<u32>>,
}

impl Offered {
    /// The position in the list of the node at this place of the call.
    pub(super) fn position(&self, at: usize) -> u32 {
        match &self.positions {
            Some(positions) => positions[at],
            None => u32::try_from(at).unwrap_or(u32::MAX),
        }
    }
}

/// Refuses a request with more names than a list has, or more changes than a call: decoded, each takes a multiple of its
/// bytes.
pub(super) fn check_size(message: &[u8]) -> Result<(), CallRefusal> {
    let unreadable = |failure: BackendFailure| invalid(&failure.detail);
    let (mut names, mut changes) = (0, 0);
    for field in fields(message) {
        match field.map_err(unreadable)? {
            (NODES, Some(nodes)) => {
                for field in fields(nodes) {
                    names += usize::from(field.map_err(unreadable)?.0 == NAMES);
                }
            }
            (CHANGES, _) => changes += 1,
            _ => {}
        }
    }
    if changes > MOST_CHANGES {
        return Err(invalid(&format!("{changes} changes of pods, at most {MOST_CHANGES}")));
    }
    if names > MOST_NAMES {
        Err(invalid(&format!("{names} names of nodes, at most {MOST_NAMES}")))
    } else {
        Ok(())
    }
}

impl NodeLists {
    /// The nodes that a call is about; `None` if their list is not known.
    pub(super) fn offered(&self, nodes: Option<Nodes>) -> Result<Option<Offered>, CallRefusal> {
        let Nodes { list: id, names, offered } = nodes.ok_or_else(|| invalid("the request has no nodes"))?;
        if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid(&format!("nodes.list has not 1 to {LONGEST_ID} printable ASCII characters")));
        }
        let list = if names.is_empty() { self.find(&id) } else { Some(self.add(id, &names)?) };
        let Some(list) = list else { return Ok(None) };
        let positions = positions(&offered, list.count())?;
        let names = match &positions {
            None => list,
            Some(positions) => Arc::new(list.only(positions)),
        };
        Ok(Some(Offered { names, positions }))
    }

    fn find(&self, id: &str) -> Option<Arc<Names>> {
        let mut lists = self.0.lock();
        let at = lists.iter().position(|list| list.id == id)?;
        let list = lists.remove(at)?;
        let names = Arc::clone(&list.names);
        lists.push_back(list);
        Some(names)
    }

    fn add(&self, id: String, names: &[String]) -> Result<Arc<Names>, CallRefusal> {
        if let Some(name) = names.iter().find(|name| name.is_empty() || name.len() > LONGEST_NAME) {
            return Err(invalid(&format!("a node's name has {} bytes, not 1 to {LONGEST_NAME}", name.len())));
        }
        let names = Names::of(names);
        let Some((texts, ends)) = names.in_one_piece() else {
            return Err(invalid("a name is in the list of nodes twice"));
        };
        let bytes = id.len() + texts.len() + size_of_val(ends);
        let names = Arc::new(names);
        let mut lists = self.0.lock();
        lists.retain(|known| known.id != id);
        lists.push_back(List { id, names: Arc::clone(&names), bytes });
        let bytes = |lists: &VecDeque<List>| lists.iter().map(|list| list.bytes).sum::<usize>();
        while lists.len() > MOST_LISTS || lists.len() > 1 && bytes(&lists) > MOST_BYTES {
            lists.pop_front();
        }
        Ok(names)
    }
}

/// The positions whose bits are set; `None` if all are, or without bits.
fn positions(bits: &[u8], count: u32) -> Result<Option<Vec<u32>>, CallRefusal> {
    if bits.is_empty() {
        return Ok(None);
    }
    let bytes = count.div_ceil(8);
    if bits.len() != bytes as usize {
        return Err(invalid(&format!("nodes.offered has {} bytes, and the list {count} nodes", bits.len())));
    }
    let is_set = |at: &u32| bits[(at / 8) as usize] >> (at % 8) & 1 == 1;
    if (count..bytes * 8).any(|at| is_set(&at)) {
        return Err(invalid(&format!("nodes.offered has a node beyond the {count} of the list")));
    }
    let positions: Vec<u32> = (0..count).filter(is_set).collect();
    Ok(Some(positions).filter(|positions| positions.len() < count as usize))
}

#[cfg(test)]
mod tests {
    use extender_gateway_contract::protobuf::put_bytes;

    use super::*;

    fn nodes(list: &str, names: &[&str], offered: &'static [u8]) -> Nodes {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Nodes { list: list.into(), names, offered: offered.into() }
    }

    fn names(offered: &Offered) -> Vec<&str> {
        (0..offered.names.count()).map(|node| offered.names.name(node)).collect()
    }

    #[test]
    fn a_list_is_sent_once_and_named_after_that() {
        let lists = NodeLists::default();
        assert!(lists.offered(Some(nodes("1", &[], b""))).unwrap().is_none(), "it was not sent");
        let all = lists.offered(Some(nodes("1", &["a", "b", "c"], b""))).unwrap().unwrap();
        assert_eq!((names(&all), all.position(2)), (vec!["a", "b", "c"], 2));
        let some = lists.offered(Some(nodes("1", &[], b"\x05"))).unwrap().unwrap();
        assert_eq!((names(&some), some.position(1)), (vec!["a", "c"], 2));
        for every in [&b""[..], b"\x07"] {
            let every = lists.offered(Some(nodes("1", &[], every))).unwrap().unwrap();
            assert!(Arc::ptr_eq(&every.names, &all.names), "it is not copied");
        }
        // Sent again, with other names.
        lists.offered(Some(nodes("1", &["x"], b""))).unwrap();
        assert_eq!(names(&lists.offered(Some(nodes("1", &[], b""))).unwrap().unwrap()), ["x"]);
        assert_eq!(lists.0.lock().len(), 1);
    }

    #[test]
    fn the_lists_used_last_are_kept() {
        let lists = NodeLists::default();
        let ids: Vec<_> = (0..=MOST_LISTS).map(|id| id.to_string()).collect();
        let (one_more, first) = ids.split_last().unwrap();
        let is_known = |id: &str| lists.offered(Some(nodes(id, &[], b""))).unwrap().is_some();
        for id in first {
            lists.offered(Some(nodes(id, &["a"], b""))).unwrap();
        }
        assert!(is_known("0"));
        lists.offered(Some(nodes(one_more, &["a"], b""))).unwrap();
        assert_eq!(["0", "1", "2", one_more].map(is_known), [true, false, true, true]);
    }

    #[test]
    fn nodes_that_are_none_are_refused() {
        let long = "n".repeat(LONGEST_NAME + 1);
        let cases = [
            (None, "no nodes"),
            (Some(nodes("", &["a"], b"")), "nodes.list"),
            (Some(nodes("a b", &["a"], b"")), "nodes.list"),
            (Some(nodes(&"1".repeat(65), &["a"], b"")), "nodes.list"),
            (Some(nodes("1", &[""], b"")), "0 bytes"),
            (Some(nodes("1", &[&long], b"")), "1025 bytes"),
            (Some(nodes("1", &["a", "b", "a"], b"\x02")), "a name is in the list of nodes twice"),
            (Some(nodes("1", &["a"], b"\x01\x01")), "2 bytes, and the list 1"),
            (Some(nodes("1", &["a"], b"\x02")), "beyond the 1"),
        ];
        for (nodes, part) in cases {
            let refusal = NodeLists::default().offered(nodes).unwrap_err();
            assert!(refusal.text.contains(part), "{}", refusal.text);
        }
    }

    /// A field with nothing in it.
    fn empty(field: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_bytes(field, b"", &mut bytes);
        bytes
    }

    #[test]
    fn names_are_counted_before_they_are_decoded() {
        // nodes { names: "" } takes two bytes a name.
        let request = |names: usize| {
            let nodes = empty(NAMES).repeat(names);
            let mut request = Vec::new();
            put_bytes(NODES, &nodes, &mut request);
            request
        };
        assert!(check_size(&request(MOST_NAMES)).is_ok());
        let mut twice = request(MOST_NAMES);
        twice.extend(request(1));
        assert!(check_size(&twice).unwrap_err().text.contains("100001 names"));
        assert!(check_size(b"\xff").is_err());
        let changes = |count: usize| empty(CHANGES).repeat(count);
        assert!(check_size(&changes(MOST_CHANGES)).is_ok());
        assert!(check_size(&changes(MOST_CHANGES + 1)).unwrap_err().text.contains("10001 changes"));
    }
}
