package language

// catalogue is every language, sorted by name.
var catalogue = sorted(native, managed, scripts, runners)
