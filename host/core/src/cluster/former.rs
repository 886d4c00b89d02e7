//! The hosts that served the cluster and left it, for those who choose the next ones.

use std::collections::BTreeMap;

use capmaas_api::{MaasCluster, MaasMachine, names};
use serde::{Deserialize, Serialize};

use super::endpoint::Endpoint;
use super::record::reported;
use super::{ClusterFlow, Run};
use crate::provider_id;
use crate::step::{Read, Reply};

/// So many are remembered, the newest.
const MOST: usize = 64;

/// A host that is not the cluster's any more.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct FormerHost {
    #[serde(rename = "systemID")]
    system_id: String,
    /// Unix seconds.
    held_until: u64,
}

/// When (Unix seconds) the cluster last held which host, by system id. An annotation that cannot be read counts as none:
/// it only says what is preferred.
pub(crate) fn former_hosts(cluster: Option<&MaasCluster>) -> BTreeMap<String, u64> {
    let annotations = cluster.and_then(|c| c.metadata.annotations.as_ref());
    read(annotations.and_then(|a| a.get(names::FORMER_HOSTS_ANNOTATION)))
}

fn read(annotation: Option<&String>) -> BTreeMap<String, u64> {
    let list: Option<Vec<FormerHost>> = annotation.and_then(|t| serde_json::from_str(t).ok());
    list.unwrap_or_default().into_iter().map(|h| (h.system_id, h.held_until)).collect()
}

/// The hosts of the machines that are being deleted, and since when. One that never served, or was lost, is not wanted
/// back.
pub(super) fn leaving(machines: &[MaasMachine]) -> BTreeMap<String, u64> {
    let host = |m: &MaasMachine| {
        let deleted_at = m.metadata.deletion_timestamp.as_ref()?.0.as_second();
        let served = reported(m) && m.status.as_ref().is_some_and(|s| s.failure_reason.is_none());
        let id = provider_id::system_id(m.spec.provider_id.as_deref()?)?;
        served.then(|| (id.to_owned(), u64::try_from(deleted_at).unwrap_or_default()))
    };
    machines.iter().filter_map(host).collect()
}

impl Run<'_> {
    /// Writes down who leaves: once for each, as the time is that of the deletion and not ours.
    pub(super) fn remember_leaving(&mut self, endpoint: &Endpoint) -> ClusterFlow<()> {
        if matches!(endpoint, Endpoint::Elsewhere) {
            // There is no record for which the machines were listed.
            self.list_leaving()?;
        }
        let known = self.annotations.get(names::FORMER_HOSTS_ANNOTATION);
        let hosts = merged(read(known), std::mem::take(&mut self.leaving));
        let text = serde_json::to_string(&hosts).ok();
        if hosts.is_empty() || text.as_ref() == known {
            return Ok(());
        }
        self.annotate(names::FORMER_HOSTS_ANNOTATION, text)
    }

    /// A listing that fails is made up for by the next one.
    fn list_leaving(&mut self) -> ClusterFlow<()> {
        let namespace = self.namespace().to_owned();
        let cluster = self.cluster_name().to_owned();
        if let Ok(Reply::MaasMachines(objects)) =
            self.read(Read::MaasMachines { namespace, cluster })?
        {
            let readable = objects.into_iter().filter_map(|o| serde_json::from_value(o).ok());
            self.leaving = leaving(&readable.collect::<Vec<_>>());
        }
        Ok(())
    }
}

/// Newest first.
fn merged(mut known: BTreeMap<String, u64>, leaving: BTreeMap<String, u64>) -> Vec<FormerHost> {
    for (system_id, at) in leaving {
        let until = known.entry(system_id).or_default();
        *until = at.max(*until);
    }
    let mut list: Vec<FormerHost> = known
        .into_iter()
        .map(|(system_id, held_until)| FormerHost { system_id, held_until })
        .collect();
    list.sort_by_key(|h| std::cmp::Reverse(h.held_until));
    list.truncate(MOST);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_each_once_under_its_latest_time() {
        let known = (0..70).map(|n| (format!("host{n:02}"), 1000 + n)).collect();
        let leaving = BTreeMap::from([("host00".to_owned(), 5000), ("host69".to_owned(), 7)]);
        let hosts = merged(known, leaving);
        assert_eq!(hosts.len(), MOST);
        assert_eq!((hosts[0].system_id.as_str(), hosts[0].held_until), ("host00", 5000));
        assert_eq!((hosts[1].system_id.as_str(), hosts[1].held_until), ("host69", 1069));
        assert_eq!(hosts[MOST - 1].held_until, 1007);
        let again = hosts.iter().map(|h| (h.system_id.clone(), h.held_until)).collect();
        assert_eq!(merged(again, BTreeMap::new()), hosts);
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        for text in ["", "null", "{}", "[{}]", "[1]", r#"[{"systemID":"a","heldUntil":-1}]"#] {
            assert!(read(Some(&text.to_owned())).is_empty(), "{text}");
        }
    }
}
