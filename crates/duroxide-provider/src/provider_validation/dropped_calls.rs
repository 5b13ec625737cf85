//! A caller may go away in the middle of a call. What it asked for happens wholly or not at all.

use super::ProviderFactory;
use super::fixture::{Commit, Store, activity, scheduled, start, started};
use crate::drop_after::drop_after;
use crate::{InstanceFilter, ProviderErrorKind};

/// More than any call waits.
const MANY: u32 = 300;

/// Whoever comes next, and commits.
async fn next_caller(store: &Store<'_>) {
    let nobody = InstanceFilter { instance_ids: Some(vec!["nobody".into()]), ..InstanceFilter::default() };
    let deleted = store.admin().delete_instance_bulk(nobody).await.expect("there is nothing to delete");
    assert_eq!(deleted.instances_deleted, 0);
}

/// An instance is there with its history, or gone, wherever its deletion stops.
pub async fn a_dropped_deletion_happens_wholly_or_not_at_all(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for times in 1..MANY {
        let id = format!("d{times}");
        store.finish(&id).await;
        let deleted = drop_after(times, store.admin().delete_instance(&id, false)).await;
        for _ in 0..3 {
            next_caller(&store).await;
        }
        // The history first: a deletion that is still under way may end in between.
        let history = store.history(&id).await;
        let listed = store.admin().list_instances().await.expect("listed").contains(&id);
        assert!(!listed || history.len() == 2, "dropped after {times}: {history:?} is left of {id}");
        let Some(deleted) = deleted else { continue };
        deleted.expect("nothing is in the way");
        assert!(!listed, "{id} was deleted");
        return;
    }
    panic!("a deletion does not end");
}

/// A turn's events and its work are there together, wherever its commit stops; if they are not, the lock still holds.
pub async fn a_dropped_commit_happens_wholly_or_not_at_all(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    for times in 1..MANY {
        let id = format!("c{times}");
        store.send(start(&id)).await;
        let turn = store.turn_of(&id).await;
        let commit = Commit::of(&turn).events([started(&id, 1), scheduled(2, &id)]).work([activity(&id, 2)]);
        let committed = drop_after(times, store.try_commit(&turn, commit.clone())).await;
        next_caller(&store).await;
        match store.try_commit(&turn, commit).await {
            Ok(()) => assert!(committed.is_none(), "{id} was committed"),
            Err(error) => assert_eq!(error.kind(), ProviderErrorKind::LockLost, "{error}"),
        }
        assert_eq!(store.history(&id).await.len(), 2, "dropped after {times}");
        let work = store.work().await;
        assert_eq!(work.item, activity(&id, 2));
        store.expect_no_work().await;
        store.provider.ack_work_item(&work.token, None).await.expect("it is removed");
        let Some(committed) = committed else { continue };
        return committed.expect("the lock was held");
    }
    panic!("a commit does not end");
}
