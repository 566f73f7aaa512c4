"""Never loads."""

while True: pass
