from veilstream.__main__ import main

main()
