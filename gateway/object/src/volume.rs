//! A volume of a pod: which field says what it is, and the claim.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};

use super::json::Text;

/// Mirrors `corev1.Volume`, the fields that are read.
#[derive(Debug, Default)]
pub(super) struct Volume<'a> {
    pub(super) name: Text<'a>,
    /// The name of the field that says what it is; empty if there is none that is known.
    pub(super) source: &'static str,
    pub(super) persistent_volume_claim: Option<ClaimSource<'a>>,
    pub(super) csi: Option<CsiSource<'a>>,
}

/// Mirrors `corev1.PersistentVolumeClaimVolumeSource`, the field that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaimSource<'a> {
    #[serde(borrow)]
    pub(super) claim_name: Text<'a>,
}

/// Mirrors `corev1.CSIVolumeSource`, the field that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CsiSource<'a> {
    #[serde(borrow)]
    pub(super) driver: Text<'a>,
}

const NAME: &str = "name";
const CLAIM: &str = "persistentVolumeClaim";
const CSI: &str = "csi";
/// A claim that the control plane creates for the pod; its template is not parsed.
pub(super) const EPHEMERAL: &str = "ephemeral";

/// The fields of `corev1.Volume`.
const FIELDS: &[&str] = &[
    NAME,
    CLAIM,
    CSI,
    EPHEMERAL,
    "configMap",
    "downwardAPI",
    "emptyDir",
    "hostPath",
    "image",
    "projected",
    "secret",
    "nfs",
    "iscsi",
    "fc",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

impl<'de: 'a, 'a> Deserialize<'de> for Volume<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Volume", FIELDS, VolumeVisitor)
    }
}

struct VolumeVisitor;

impl<'de> Visitor<'de> for VolumeVisitor {
    type Value = Volume<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Volume<'de>, A::Error> {
        let mut volume = Volume::default();
        while let Some(Field(field)) = fields.next_key()? {
            let is_set = match field {
                NAME => {
                    volume.name = fields.next_value()?;
                    false
                }
                CLAIM => {
                    volume.persistent_volume_claim = fields.next_value()?;
                    volume.persistent_volume_claim.is_some()
                }
                CSI => {
                    volume.csi = fields.next_value()?;
                    volume.csi.is_some()
                }
                _ => fields.next_value::<Option<IgnoredAny>>()?.is_some(),
            };
            if is_set {
                volume.source = field;
            }
        }
        Ok(volume)
    }
}

/// A field; empty if it is not known.
struct Field(&'static str);

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(FieldVisitor)
    }
}

struct FieldVisitor;

impl Visitor<'_> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Field, E> {
        Ok(Field(FIELDS.iter().find(|field| **field == key).copied().unwrap_or_default()))
    }
}
