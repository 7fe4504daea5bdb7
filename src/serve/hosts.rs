//! Which names of the service are answered: a page that rebinds its own name to a loopback address is not.

use axum::http::{HeaderMap, header};
use std::net::{IpAddr, Ipv6Addr};

/// The names that `Host` may have.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// `None` if every name is answered.
    allowed: Option<Vec<String>>,
}

impl Hosts {
    /// Of a service on a loopback address: `localhost`, loopback literals, and the hosts of these origins.
    pub fn of_loopback(origins: &[String]) -> Self {
        let hosts = origins.iter().filter_map(|origin| origin.split_once("://"));
        let allowed = hosts.map(|(_, host)| without_port(host).to_owned()).collect();
        let any = origins.iter().any(|origin| origin == "*");
        Self {
            allowed: (!any).then_some(allowed),
        }
    }

    /// Whether a request with these headers is answered.
    pub fn answer(&self, headers: &HeaderMap) -> bool {
        let Some(allowed) = &self.allowed else {
            return true;
        };
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return false;
        };
        let host = host.to_str().map_or("", without_port).to_ascii_lowercase();
        host == "localhost" || is_loopback(&host) || allowed.contains(&host)
    }
}

fn is_loopback(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(literal) => literal.parse::<Ipv6Addr>().is_ok_and(|at| at.is_loopback()),
        None => host.parse::<IpAddr>().is_ok_and(|at| at.is_loopback()),
    }
}

/// `[::1]:8080` as `[::1]`, `localhost:8080` as `localhost`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_service_answers_to_its_own_names_alone() {
        let hosts = Hosts::of_loopback(&["https://tools.example.org".to_owned()]);
        let answers = |names: &[&str]| {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.append(header::HOST, name.parse().unwrap());
            }
            hosts.answer(&headers)
        };
        for name in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "127.9.9.9",
            "[::1]:8080",
            "[::1]",
            "tools.example.org",
            "tools.example.org:443",
        ] {
            assert!(answers(&[name]), "{name}");
        }
        for names in [
            &["evil.example"][..],
            &["evil.example:8080"],
            &["127.0.0.1.evil.example"],
            &["localhost.evil.example"],
            &["192.168.0.1"],
            &["[::2]"],
            &["localhost", "evil.example"],
            &[""],
            &[],
        ] {
            assert!(!answers(names), "{names:?}");
        }
        assert!(Hosts::of_loopback(&["*".to_owned()]).answer(&HeaderMap::new()));
        assert!(Hosts::default().answer(&HeaderMap::new()));
    }
}
