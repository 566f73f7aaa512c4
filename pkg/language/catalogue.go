package language

// catalogue lists every language, sorted by name.
var catalogue = sorted(native, managed, scripts, runners)
