// tries: be made of bytes that are no text
// outcome: succeeded|failed
int main(void) { const char *s = "ÿþ€À¯"; /* â€® [2J */ return s[0] == 0; }

