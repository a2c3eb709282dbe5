//! Nodes as a cloud cluster has them: the labels, annotations, managed fields, conditions and images of
//! `tests/captures/filter-nodes.json`, byte for byte in the form in which kube-scheduler sends them.

use std::ops::Range;

use crate::{
    random::Random,
    template::{compact, fill},
};

/// A node's JSON, without the parts that differ from node to node.
const TEMPLATE: &str = include_str!("../templates/node.json");

const INSTANCE_TYPES: [&str; 5] =
    ["m6i.2xlarge", "c7g.16xlarge", "r6i.4xlarge", "m7g.4xlarge", "i4i.2xlarge"];
const SERVICES: [&str; 7] =
    ["payments", "checkout", "search", "catalogue", "recommendations", "telemetry-collector", "storefront"];

/// One generated node, and the labels that policies read.
#[derive(Debug, Clone)]
pub struct Node {
    /// metadata.name.
    pub name: String,
    /// Label `topology.acme.io/rack`: one of six.
    pub rack: String,
    /// Label `acme.io/tenant`: one of four.
    pub tenant: String,
    /// Label `topology.kubernetes.io/zone`: one of three.
    pub zone: String,
    /// The whole object, compact, with Go's escapes.
    pub json: String,
}

/// How much a kubelet has reported about the images on its node.
#[derive(Debug, Clone, Copy)]
pub enum Images {
    /// Two images: an object of about 6 kB.
    Few,
    /// 20 images, as on a node that has worked for some days: an object of about 14 kB.
    Usual,
}

/// The nodes with these numbers. Racks, tenants, zones and instance types alternate with different periods (6, 4, 3
/// and 5), as in `tests/kube/objects`, so that they are different partitions.
pub fn nodes(numbers: Range<usize>, images: Images) -> Vec<Node> {
    let template = compact(TEMPLATE);
    numbers.map(|number| Node::generate(&template, number, images)).collect()
}

impl Images {
    fn count(self) -> usize {
        match self {
            Self::Few => 2,
            Self::Usual => 20,
        }
    }
}

impl Node {
    fn generate(template: &str, number: usize, images: Images) -> Self {
        let (third, fourth) = (number / 256, number % 256);
        let mut node = Self {
            name: format!("ip-10-16-{third}-{fourth}.eu-west-1.compute.internal"),
            rack: format!("rack-{}", number % 6),
            tenant: format!("tenant-{}", number % 4),
            zone: format!("eu-west-1{}", ["a", "b", "c"][number % 3]),
            json: String::new(),
        };
        node.json = fill(
            template,
            &[
                ("name", &node.name),
                ("rack", &node.rack),
                ("tenant", &node.tenant),
                ("zone", &node.zone),
                ("group", &format!("general-{}", number % 4)),
                ("instance", INSTANCE_TYPES[number % INSTANCE_TYPES.len()]),
                ("address", &format!("10.16.{third}.{fourth}")),
                ("podrange", &format!("10.{}.{fourth}.0/24", 128 + third)),
                ("machine", &format!("{number:016}")),
                ("version", &format!("{}", 1_000 + number)),
                ("uid", &Random::new(number as u64).uid()),
                ("images", &image_list(images.count())),
            ],
        );
        node
    }
}

/// The value of status.images: each image by digest and by its tags.
fn image_list(count: usize) -> String {
    let images: Vec<String> = (0..count).map(image).collect();
    images.join(",")
}

fn image(number: usize) -> String {
    let service = SERVICES[number % SERVICES.len()];
    let repository =
        format!("123456789012.dkr.ecr.eu-west-1.amazonaws.com/acme/platform/services/{service}-{number}");
    let (digest, day, build) = (number + 1, number % 28 + 1, 4_711 * number);
    format!(
        "{{\"names\":[\"{repository}@sha256:{digest:064x}\",\"{repository}:v1.{number}.0\",\
         \"{repository}:release-2026-11-{day:02}-build-{build:06}-{number:032x}\"],\"sizeBytes\":{}}}",
        5_000_000 + 1_234_567 * number
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_the_usual_images_has_the_usual_size() {
        let node = &nodes(7..8, Images::Usual)[0];
        assert!((13_000..15_000).contains(&node.json.len()), "{} bytes", node.json.len());
    }
}
