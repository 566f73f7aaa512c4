package pg

// Exports for comparison in tests outside of the package.
const LeaseGap = leaseGap

var Session = session
