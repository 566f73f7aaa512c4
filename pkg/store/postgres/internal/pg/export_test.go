package pg

// What the tests outside of the package compare with.
const LeaseGap = leaseGap

var Session = session
