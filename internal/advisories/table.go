package advisories

// holes are the vulnerabilities that let code in a sandbox escape or read the data of another
// tenant. Vulnerabilities that only cause a crash are not listed. When you add one, name the first
// fixed version of every maintained branch.
var holes = []Hole{
	{
		Program: "runc", ID: "CVE-2024-21626", What: "a leaked descriptor leads to the host's files",
		Fixed: []string{"1.1.12"}, Source: "https://github.com/opencontainers/runc/security/advisories/GHSA-xr7r-f8xq-vfvv",
	},
	{
		Program: "runc", ID: "CVE-2025-31133", What: "a masked path that is a link has files of the host written",
		Fixed: []string{"1.2.8", "1.3.3", "1.4.0"}, Source: "https://github.com/opencontainers/runc/security/advisories/GHSA-9493-h29p-rfm2",
	},
	{
		Program: "runc", ID: "CVE-2025-52565", What: "a bind of /dev/console that is a link has files of the host written",
		Fixed: []string{"1.2.8", "1.3.3", "1.4.0"}, Source: "https://github.com/opencontainers/runc/security/advisories/GHSA-qw9x-cqr3-wc7r",
	},
	{
		Program: "runc", ID: "CVE-2025-52881", What: "writes to /proc are led elsewhere by shared mounts",
		Fixed: []string{"1.2.8", "1.3.3", "1.4.0"}, Source: "https://github.com/opencontainers/runc/security/advisories/GHSA-cgrx-mc8f-2prm",
	},
	{
		Program: "containerd", ID: "CVE-2024-40635", What: "a user of an image whose number is too large is root",
		Fixed: []string{"1.6.38", "1.7.27", "2.0.4"}, Source: "https://github.com/containerd/containerd/security/advisories/GHSA-265r-hfxg-fhmg",
	},
	{
		Program: "containerd", ID: "CVE-2024-25621", What: "local users of the host pass through its directories",
		Fixed: []string{"1.7.29", "2.0.7", "2.1.5", "2.2.0"}, Source: "https://nvd.nist.gov/vuln/detail/CVE-2024-25621",
	},
	{
		Program: "containerd", ID: "CVE-2026-53488", What: "a label of an image runs a command on the host, through its CRI plugin",
		Fixed: []string{"1.7.33", "2.0.10", "2.1.9", "2.2.5", "2.3.2"}, Source: "https://github.com/advisories/GHSA-xhf5-7wjv-pqxp",
	},
	{
		Program: "kernel", ID: "CVE-2022-0847", What: "a pipe overwrites files that may only be read",
		Fixed: []string{"5.10.102", "5.15.25", "5.16.11"}, Since: "5.8", Source: "https://nvd.nist.gov/vuln/detail/CVE-2022-0847",
	},
	{
		Program: "kernel", ID: "CVE-2024-1086", What: "nf_tables frees memory twice, for any owner of a network namespace",
		Fixed: []string{"5.10.210", "5.15.149", "6.1.76", "6.6.15", "6.7.3", "6.8"}, Source: "https://nvd.nist.gov/vuln/detail/CVE-2024-1086",
	},
	{
		Program: "kernel", ID: "CVE-2025-38236", What: "unix sockets use freed memory, for every program that has them",
		Fixed: []string{"6.1.143", "6.6.96", "6.12.36", "6.15.5", "6.16"}, Since: "5.15", Source: "https://nvd.nist.gov/vuln/detail/CVE-2025-38236",
	},
}
