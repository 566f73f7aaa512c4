// tries: run code of its own in the compiler, by what a source may tell it
// outcome: succeeded|failed
#pragma GCC plugin "/workspace/plugin.so"
#pragma GCC system_header
#pragma GCC dependency "/etc/passwd"
#pragma GCC push_options
#pragma GCC optimize ("-fplugin=/workspace/plugin.so")
#pragma GCC optimize ("-wrapper,/workspace/wrapper")
#pragma GCC target ("arch=native")
#pragma comment(lib, "/workspace/plugin")
asm(".section .note.GNU-stack,\"x\"\n.previous");
int main(void) { return 0; }
