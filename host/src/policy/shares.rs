//! Places that are shared out, so that who asks for many keeps nobody else waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many places in all, and so many of them for each.
pub struct Shares {
    all: Arc<Semaphore>,
    each: usize,
    shares: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A place, until it is dropped.
pub struct Place {
    _common: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl Shares {
    /// All places are free.
    pub fn new(all: usize, each: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), each, shares: Mutex::default() }
    }

    /// A place for one of these; waits for it.
    pub async fn take(&self, who: &str) -> Place {
        const NEVER_CLOSED: &str = "nobody closes it";
        // One's own share first: who waits for it must not hold a place.
        let own = self.share(who).acquire_owned().await.expect(NEVER_CLOSED);
        let common = self.all.clone().acquire_owned().await.expect(NEVER_CLOSED);
        Place { _common: common, _own: own }
    }

    fn share(&self, who: &str) -> Arc<Semaphore> {
        let mut shares = self.shares();
        if let Some(share) = shares.get(who).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.each));
        shares.insert(who.to_owned(), Arc::downgrade(&share));
        share
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<String, Weak<Semaphore>>> {
        self.shares.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn now(shares: &Shares, who: &str) -> Option<Place> {
        shares.take(who).now_or_never()
    }

    #[test]
    fn who_takes_all_that_it_may_leaves_places_for_others() {
        let shares = Shares::new(3, 2);
        let greedy = [now(&shares, "greedy"), now(&shares, "greedy")].map(Option::unwrap);
        assert!(now(&shares, "greedy").is_none());
        let modest = now(&shares, "modest").expect("one is left");
        assert!(now(&shares, "third").is_none(), "and now none is");
        drop(greedy);
        assert!(now(&shares, "third").is_some() && now(&shares, "greedy").is_some());
        drop(modest);
        assert!(now(&shares, "new").is_some());
        assert_eq!(shares.shares().len(), 1, "nobody is remembered for ever");
    }
}
