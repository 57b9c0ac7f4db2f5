//! Orders the certificate of `[tls.acme]` in the background, renews it, and shows it to the
//! connections that come. There is one order at a time.

use super::acme::{self, Lifetime};
use super::tell;
use super::tls::Tls;
use crate::config::{self, Acme};
use crate::gateway::Gateway;
use crate::http::unix_time;
use rustls::crypto::CryptoProvider;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The time for an order. Our choice: authorities validate within seconds, and slow ones within
/// minutes.
const ORDER_TIMEOUT: Duration = Duration::from_mins(5);
/// After a failed order, doubled after each further one up to [`MAX_RETRY_DELAY`]; also the time
/// between two orders.
const RETRY_DELAY: Duration = Duration::from_mins(1);
/// Our choice: Let's Encrypt allows five failed validations per name and hour.
const MAX_RETRY_DELAY: Duration = Duration::from_hours(6);
/// After an order that failed before the start of this process. Our choice: one that ends and is
/// started again and again does not exceed that limit either.
const RESTART_DELAY: Duration = Duration::from_mins(15);
/// The clock may be set meanwhile, and a file replaced: after this time both are looked at again.
const MAX_SLEEP: Duration = Duration::from_hours(1);

/// The orders so far.
#[derive(Default)]
struct Past {
    /// The settings of the last one, and when it ended.
    last: Option<(Acme, Instant)>,
    /// Failed ones since the last success or reload.
    failures: u32,
    /// True if the settings were read again since the start: then an order is wanted.
    is_reloaded: bool,
}

impl Past {
    /// The time until the next order that has been due for, or is due in, `due`.
    fn wait(&self, wanted: &Acme, due: Duration) -> Duration {
        let delay = match &self.last {
            Some((settings, ended)) if settings == wanted => {
                retry_delay(self.failures).saturating_sub(ended.elapsed())
            }
            _ => Duration::ZERO,
        };
        due.max(delay)
    }
}

/// Orders and renews the certificate, as the settings of `tls` require, until the gateway ends.
pub(super) async fn keep_certificate(tls: Arc<Tls>, gateway: Weak<Gateway>) {
    let mut past = Past::default();
    loop {
        let config = tls.config();
        let Some(wanted) = config.acme.as_deref() else {
            tls.reloaded.notified().await;
            continue;
        };
        let wait = past.wait(wanted, due(&config, wanted, tls.provider()));
        let wait = wait.max(before_start(&config, wanted, &past));
        if !wait.is_zero() {
            tokio::select! {
                () = sleep(wait.min(MAX_SLEEP)) => {}
                () = tls.reloaded.notified() => (past.failures, past.is_reloaded) = (0, true),
            }
            continue;
        }
        let (directory, domains) = (&wanted.directory, wanted.domains.join(", "));
        tracing::info!(
            %directory, domains,
            "ordering a certificate; until it is issued, clients are shown the kept or the self-signed one"
        );
        let offer = |challenges| tls.offer_challenges(challenges);
        let order = acme::order(wanted, &config.directory, tls.provider(), &offer);
        let result = timeout(ORDER_TIMEOUT, order).await;
        tls.offer_challenges(None);
        let result = result.unwrap_or(Err(acme::Error::Timeout));
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        gateway.metrics.acme_order(result.is_ok());
        let failed = result.is_err().then(unix_time);
        if let Err(error) = acme::write_failed_order(&config.directory, wanted, failed) {
            tracing::error!(%error, "the next start will not know that the order failed");
        }
        past.failures = match failed {
            None => 0,
            Some(_) => past.failures.saturating_add(1),
        };
        report(result, wanted, retry_delay(past.failures));
        past.last = Some((wanted.clone(), Instant::now()));
        if past.failures == 0 {
            show(&tls, &gateway);
        }
    }
}

/// Shows the certificate in the files to the connections that come.
fn show(tls: &Tls, gateway: &Gateway) {
    match tls.refresh(unix_time()) {
        Ok(found) => {
            tell(&found, &gateway.metrics);
            gateway.hosts.certify(&found.names);
        }
        Err(error) => {
            tracing::error!(%error, "the new certificate cannot be used: the old one stays");
        }
    }
}

fn report(result: Result<(), acme::Error>, wanted: &Acme, retry: Duration) {
    let (directory, domains) = (&wanted.directory, wanted.domains.join(", "));
    match result {
        Ok(()) => tracing::info!(%directory, domains, "certificate issued"),
        Err(error) => tracing::error!(
            error = one_line(&error.to_string()), %directory, domains, retry_after = retry.as_secs(),
            "no certificate: the order failed"
        ),
    }
}

/// What an authority writes, for the log: one line of limited length.
fn one_line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(1000).collect()
}

fn retry_delay(failures: u32) -> Duration {
    let doubled = 1_u32
        .checked_shl(failures.saturating_sub(1))
        .unwrap_or(u32::MAX);
    RETRY_DELAY.saturating_mul(doubled).min(MAX_RETRY_DELAY)
}

/// The time that is left of the delay after an order that failed before this process has made one
/// or was reloaded.
fn before_start(config: &config::Tls, wanted: &Acme, past: &Past) -> Duration {
    if past.last.is_some() || past.is_reloaded {
        return Duration::ZERO;
    }
    let ended = acme::failed_order(&config.directory, wanted);
    let left = ended.map_or(Duration::ZERO, |ended| restart_delay(ended, unix_time()));
    if !left.is_zero() {
        let retry_after = left.as_secs();
        tracing::warn!(
            retry_after,
            "no certificate is ordered yet: an order failed before the start; a reload orders at once"
        );
    }
    left
}

/// What is left of the delay at a time, after an order that ended at another. If the clock was set
/// back since, it is not known how long ago that was.
fn restart_delay(ended: Duration, now: Duration) -> Duration {
    let since = now.checked_sub(ended);
    since.map_or(Duration::ZERO, |since| RESTART_DELAY.saturating_sub(since))
}

/// The time until an order is due: at once without a certificate for all names, else when it has to
/// be renewed.
fn due(config: &config::Tls, wanted: &Acme, provider: &CryptoProvider) -> Duration {
    let Some(lifetime) = acme::lifetime(&config.directory, wanted, provider) else {
        return Duration::ZERO;
    };
    let now = i64::try_from(unix_time().as_secs()).unwrap_or(i64::MAX);
    let seconds = renewal(&lifetime).saturating_sub(now);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// When a certificate is renewed: after two thirds of its lifetime (as Let's Encrypt advises), less
/// up to a thirtieth of it, so that many gateways do not come at once. The same time for the same
/// certificate.
fn renewal(certificate: &Lifetime) -> i64 {
    let whole = certificate
        .not_after
        .saturating_sub(certificate.not_before)
        .max(0);
    let jitter = whole / 30 * i64::from(certificate.jitter) / 256;
    certificate.not_before + whole / 3 * 2 - jitter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_orders_are_repeated_after_one_minute_and_then_ever_later() {
        let minutes = [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360];
        for (failures, minutes) in (0..).zip(minutes) {
            assert_eq!(retry_delay(failures), Duration::from_mins(minutes));
        }
        assert_eq!(retry_delay(u32::MAX), MAX_RETRY_DELAY);
    }

    #[test]
    fn an_order_that_failed_before_the_start_delays_the_next_one_unless_the_clock_was_set_back() {
        let ended = Duration::from_hours(1000);
        for (minutes, left) in [(0, 15), (14, 1), (15, 0), (1000, 0)] {
            let now = ended + Duration::from_mins(minutes);
            assert_eq!(restart_delay(ended, now), Duration::from_mins(left));
        }
        let later = ended + Duration::from_mins(1);
        assert_eq!(restart_delay(later, ended), Duration::ZERO);
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_lifetime_or_a_little_earlier() {
        let at = |jitter| {
            renewal(&Lifetime {
                not_before: 1_000_000,
                not_after: 1_900_000,
                jitter,
            })
        };
        assert_eq!(at(0), 1_600_000);
        assert!((1_570_000..1_571_000).contains(&at(255)), "{}", at(255));
    }

    #[test]
    fn words_of_the_authority_are_one_short_line_of_the_log() {
        assert_eq!(one_line("a\n\u{1b}[31mb"), "a  [31mb");
        assert_eq!(one_line(&"ü".repeat(5000)).chars().count(), 1000);
    }
}
